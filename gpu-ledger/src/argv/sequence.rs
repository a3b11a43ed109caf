//! What words mean by the words before them.

use std::ops::Range;

use super::marks::{Marks, Piece};
use super::names::{self, Sort};
use super::programs::Context;
use super::{pem, text, urls, values};

/// Commands inside of a word inside of a word: `ssh host "sh -c '...'"`. Deeper ones are looked at as text.
const NESTING_MAX: usize = 4;

/// The words of a whole command line.
pub(super) fn top(pieces: &[Piece<'_>], marks: &mut Marks) {
    for piece in pieces {
        text::flat(piece, marks);
    }
    pem::mark_spread(pieces, marks);
    command(pieces, 0, marks);
}

/// The words of one command.
fn command(pieces: &[Piece<'_>], depth: usize, marks: &mut Marks) {
    let mut context = Context::default();
    let mut place: usize = 0;
    while let Some(piece) = pieces.get(place) {
        let next = pieces.get(place.saturating_add(1));
        context.meets(piece, place, pieces);
        if context.mark(piece, next, depth > 0, marks)
            || before_value(piece, next, &context, depth, marks)
        {
            // The next word is the value, whatever it looks like.
            place = place.saturating_add(2);
            place = more_values(piece, pieces, place, marks);
            continue;
        }
        urls::login_at_host(piece, marks);
        let is_whole =
            !context.is_script() && (text::whole(piece, marks) || in_option(piece, marks));
        if !is_whole && depth < NESTING_MAX {
            nested(piece, depth, marks);
        }
        place = place.saturating_add(1);
    }
    context.ends(pieces, marks);
}

/// `--header=X-Api-Key: V` and `--env=NAME=V`. Whether that is all there is to the word.
fn in_option(piece: &Piece<'_>, marks: &mut Marks) -> bool {
    let equals = piece.text.iter().position(|byte| *byte == b'=');
    let Some(equals) = equals.filter(|_| piece.text.starts_with(b"-")) else { return false };
    text::whole(&piece.part(&(equals.saturating_add(1)..piece.text.len())), marks)
}

/// Whether the word makes the next one a secret, which then is marked.
fn before_value(
    piece: &Piece<'_>,
    next: Option<&Piece<'_>>,
    context: &Context<'_>,
    depth: usize,
    marks: &mut Marks,
) -> bool {
    let Some(next) = next else { return false };
    if let Some(marked) = header_word(piece, next, marks) {
        return marked;
    }
    let dashes = piece.text.iter().take_while(|byte| **byte == b'-').count();
    let name = text::name_at(piece.text, dashes);
    if name.end != piece.text.len() || dashes > 2 {
        // A setting may be an address: `//registry.npmjs.org/:_authToken`.
        let is_setting = dashes == 0 && context.takes_settings();
        return is_setting && setting(piece, next, depth, marks);
    }
    let word = piece.text.get(name).unwrap_or_default();
    if dashes == 0 {
        return context.takes_settings() && setting(piece, next, depth, marks)
            || depth == 0 && bare_name(word, next, marks);
    }
    let Some(sort) = names::sort(word) else { return false };
    if names::is_switch(word) || context.is_switch(piece.text) {
        return false;
    }
    value(next, sort, depth, marks)
}

/// `--api-keys V V V`: the words after the first; the place of what follows.
fn more_values(option: &Piece<'_>, pieces: &[Piece<'_>], from: usize, marks: &mut Marks) -> usize {
    let mut place = from;
    if !option.text.starts_with(b"--")
        || option.text.contains(&b'=')
        || !names::is_plural(option.text)
    {
        return place;
    }
    let is_value =
        |piece: &&Piece<'_>| !values::is_option(piece.text) && !values::is_path(piece.text);
    while let Some(piece) = pieces.get(place).filter(is_value) {
        if !values::says_nothing(piece.text) {
            marks.whole(piece);
        }
        place = place.saturating_add(1);
    }
    place
}

/// `... set NAME V`.
fn setting(piece: &Piece<'_>, next: &Piece<'_>, depth: usize, marks: &mut Marks) -> bool {
    let name = piece.text.rsplit(|byte| matches!(byte, b':' | b'/')).next().unwrap_or_default();
    // poetry's `pypi-token.NAME`.
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    let sort = names::sort(name).or_else(|| names::sort(stem));
    // `create secret`, and verbs such as `set-credentials`.
    let is_verb = name.eq_ignore_ascii_case(b"secret") || name.starts_with(b"set-");
    let sort = sort.filter(|_| !is_verb);
    sort.is_some_and(|sort| value(next, sort, depth, marks))
}

/// `password V` and `api_key V` without a dash, where V can be no word of a language.
fn bare_name(word: &[u8], next: &Piece<'_>, marks: &mut Marks) -> bool {
    const NAMES: &[&str] = &[
        "password",
        "passwd",
        "passphrase",
        "api_key",
        "apikey",
        "api-key",
        "access_token",
        "auth_token",
        "secret_key",
        "mysql_pwd",
        "client_secret",
    ];
    const LEAST: usize = 6;
    let is_name = NAMES.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    let text = next.text;
    let made = text.len() >= LEAST
        && text.iter().any(u8::is_ascii_digit)
        && text.iter().any(u8::is_ascii_alphabetic)
        && !text.iter().any(|byte| matches!(byte, b'=' | b'/' | b'.' | b':' | b' '));
    if is_name && made {
        marks.whole(next);
    }
    is_name && made
}

/// `echo V | docker login --password-stdin`.
fn piped(commands: &[Vec<Piece<'_>>], marks: &mut Marks) {
    const TAKERS: &str =
        "--password-stdin --with-token --token-stdin --passphrase-fd -S --stdin login chpasswd";
    for pair in commands.windows(2) {
        let [from, to] = pair else { continue };
        let says = from.first().is_some_and(|piece| matches!(piece.text, b"echo" | b"printf"));
        let takes = |piece: &Piece<'_>| {
            TAKERS.split_ascii_whitespace().any(|word| word.as_bytes() == piece.text)
        };
        let Some(last) = from.last().filter(|_| says && from.len() > 1 && to.iter().any(takes))
        else {
            continue;
        };
        if !values::is_reference(last.text) && !values::is_option(last.text) {
            text::held(last, &(0..last.text.len()), Sort::Password, marks);
        }
    }
}

fn value(next: &Piece<'_>, sort: Sort, depth: usize, marks: &mut Marks) -> bool {
    let refers = depth > 0 && values::is_reference(next.text);
    if refers || values::is_option(next.text) || !sort.holds(next.text) {
        return false;
    }
    let inner = values::unquoted(next.text);
    text::held(next, &inner, sort, marks);
    true
}

/// A header whose words the shell took apart: `Authorization:`, `Bearer`, `V`. `None` where it is none.
fn header_word(piece: &Piece<'_>, next: &Piece<'_>, marks: &mut Marks) -> Option<bool> {
    let scheme = piece.text.rsplit(|byte| matches!(byte, b':' | b'=')).next().unwrap_or_default();
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer");
    if is_bearer || scheme.eq_ignore_ascii_case(b"basic") {
        let is_secret = text::is_credential(next.text, is_bearer) && !next.text.contains(&b' ');
        if is_secret {
            marks.whole(next);
        }
        return Some(is_secret);
    }
    let name = piece.text.strip_suffix(b":")?;
    let sort = names::sort(name)?;
    let is_scheme = next.text.iter().all(u8::is_ascii_alphabetic) && sort == Sort::Authorization;
    if is_scheme || !name.contains(&b'-') && sort != Sort::Authorization || !sort.holds(next.text) {
        return Some(false);
    }
    text::held(next, &(0..next.text.len()), sort, marks);
    Some(true)
}

/// A word that holds words.
fn nested(piece: &Piece<'_>, depth: usize, marks: &mut Marks) {
    if !piece.text.iter().any(u8::is_ascii_whitespace) {
        return;
    }
    let commands: Vec<Vec<Piece<'_>>> = split(piece.text)
        .iter()
        .map(|words| words.iter().map(|range| piece.part(range)).collect())
        .collect();
    piped(&commands, marks);
    for pieces in &commands {
        command(pieces, depth.saturating_add(1), marks);
    }
}

/// The commands of a text and their words, about as a shell would have them: quotes that enclose a whole word are
/// left out of it, and what a pipe, a semicolon, a bracket or a line's end separates is another command.
fn split(text: &[u8]) -> Vec<Vec<Range<usize>>> {
    let mut commands = Vec::new();
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut begun: Option<usize> = None;
    let mut quote: Option<u8> = None;
    let mut is_escaped = false;
    // A quote that nothing closes is an apostrophe.
    let last_of = |quote: u8| text.iter().rposition(|byte| *byte == quote).unwrap_or(0);
    let (last_double, last_single) = (last_of(b'"'), last_of(b'\''));
    for (place, byte) in text.iter().enumerate() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        let ends_command = matches!(byte, b'\n' | b';' | b'|' | b'&' | b'(' | b')');
        match (quote, byte) {
            (Some(open), _) if open == *byte => quote = None,
            (Some(b'\''), _) => {}
            (_, b'\\') => {
                is_escaped = true;
                begun = begun.or(Some(place));
            }
            (Some(_), _) => {}
            (None, b'"' | b'\'')
                if place < if *byte == b'"' { last_double } else { last_single } =>
            {
                quote = Some(*byte);
                begun = begun.or(Some(place));
            }
            (None, _) if ends_command || byte.is_ascii_whitespace() => {
                words.extend(begun.take().map(|from| bare(text, from..place)));
                if ends_command && !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            (None, _) => begun = begun.or(Some(place)),
        }
    }
    words.extend(begun.map(|from| bare(text, from..text.len())));
    if !words.is_empty() {
        commands.push(words);
    }
    commands
}

/// A word without the quotes that enclose it.
fn bare(text: &[u8], word: Range<usize>) -> Range<usize> {
    let inner = values::unquoted(text.get(word.clone()).unwrap_or_default());
    word.start.saturating_add(inner.start)..word.start.saturating_add(inner.end)
}
