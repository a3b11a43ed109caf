//! What words mean by the words before them.

use super::decoded::{self, Decoded};
use super::marks::{Marks, Piece};
use super::names::{self, Sort};
use super::programs::{self, Context};
use super::shell::{self, Command};
use super::{containers, foreign, lists, pem, sinks, text, urls, values};

/// Commands inside of a word inside of a word: `ssh host "sh -c '...'"`. Deeper ones are looked at as text.
const NESTING_MAX: usize = 4;
/// A value behind `NAME=` is no shorter: `NAME= python3` runs a program without the variable.
const BARE_MIN: usize = 8;

/// The words of a whole command line.
pub(super) fn top(pieces: &[Piece<'_>], marks: &mut Marks) {
    all(pieces, marks);
    // The same with names in other letters in Latin ones.
    let latin: Vec<_> = pieces.iter().map(|piece| foreign::in_latin(piece.text)).collect();
    if latin.iter().all(Option::is_none) {
        return;
    }
    let plain = latin.into_iter().zip(pieces);
    let plain = plain.map(|(word, piece)| word.unwrap_or_else(|| Decoded::same(piece.text)));
    let plain: Vec<Decoded> = plain.collect();
    decoded::all(&plain, pieces, marks, all);
}

fn all(pieces: &[Piece<'_>], marks: &mut Marks) {
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
        let in_text = depth > 0;
        let taken = if context.mark(piece, next, in_text, marks)
            || context.login(piece, next, in_text, marks)
        {
            2
        } else {
            before_value(pieces, place, &context, depth, marks)
        };
        if taken > 0 {
            // The last of these words is the value, whatever it looks like.
            place = place.saturating_add(taken);
            place = more_values(piece, pieces, place, marks);
            continue;
        }
        urls::login_at_host(piece, marks);
        let is_whole = !context.is_script()
            && (text::whole(piece, in_text, marks) || in_option(piece, in_text, marks));
        if !is_whole && depth < NESTING_MAX {
            nested(piece, depth, marks);
        }
        place = place.saturating_add(1);
        // `--auth=A:V B:V`.
        if is_whole {
            place = more_logins(piece, pieces, place, marks);
        }
    }
    context.ends(pieces, marks);
}

/// `--header=X-Api-Key: V` and `--env=NAME=V`. Whether that is all there is to the word.
fn in_option(piece: &Piece<'_>, in_text: bool, marks: &mut Marks) -> bool {
    let equals = piece.text.iter().position(|byte| *byte == b'=');
    let Some(equals) = equals.filter(|_| piece.text.starts_with(b"-")) else { return false };
    let part = piece.part(&(equals.saturating_add(1)..piece.text.len()));
    text::whole(&part, in_text, marks)
}

/// How many words from this one on are a name and its secret, which then is marked; none where they are not.
fn before_value(
    pieces: &[Piece<'_>],
    place: usize,
    context: &Context<'_>,
    depth: usize,
    marks: &mut Marks,
) -> usize {
    let (Some(piece), Some(next)) = (pieces.get(place), pieces.get(place.saturating_add(1))) else {
        return 0;
    };
    let words = |is_marked: bool| if is_marked { 2 } else { 0 };
    if let Some(marked) = header_word(piece, next, marks) {
        return words(marked);
    }
    let dashes = piece.text.iter().take_while(|byte| **byte == b'-').count();
    let name = text::name_at(piece.text, dashes);
    let is_alone = name.end == piece.text.len();
    let word = piece.text.get(name.clone()).unwrap_or_default();
    if is_alone && dashes == 0 {
        let is_marked = context.takes_settings() && setting(piece, next, depth, marks)
            || depth == 0 && bare_name(word, next, marks)
            || is_variable(pieces, place, depth) && setting(piece, next, depth, marks);
        if is_marked {
            return 2;
        }
    }
    let is_option = (1..=2).contains(&dashes) && !context.is_switch(piece.text);
    let is_switch = is_option && names::is_switch(word);
    if is_option && !is_switch && is_alone && containers::whole(next, word, marks) {
        return 2;
    }
    let sign = piece.text.get(name.end..).unwrap_or_default();
    let sort = match (is_option, is_switch) {
        (true, true) => names::sort_of_switch(word),
        (true, false) => names::sort_of_option(word),
        (false, _) => names::sort(word).filter(|_| dashes == 0 && depth == 0),
    };
    if let Some(sort) = sort.filter(|_| matches!(sign, b"" | b"=" | b":")) {
        let after = pieces.get(place.saturating_add(2));
        return apart(sign, dashes == 0, next, after, |value_piece| {
            value(value_piece, sort, depth, marks)
        });
    }
    // A setting may be an address: `//registry.npmjs.org/:_authToken`.
    let is_setting = !is_alone && dashes == 0 && context.takes_settings();
    words(is_setting && setting(piece, next, depth, marks))
}

/// Marks the value of a name that has only a sign behind it in its word. `--name V`, `--name= V`, `--name = V`,
/// `--name =V`, `--name -- V`; without dashes `NAME = V`, and `NAME= V` where V can be no program.
fn apart<'a>(
    sign: &[u8],
    is_bare: bool,
    next: &Piece<'a>,
    after: Option<&Piece<'a>>,
    mut value: impl FnMut(&Piece<'a>) -> bool,
) -> usize {
    let is_program = |piece: &Piece<'_>| values::is_path(piece.text) || values::is_file(piece.text);
    let is_key = |word: &[u8]| {
        values::is_tangled(word)
            || values::is_unlike_names(word)
            || values::is_random(word) && !word.contains(&b'-')
    };
    if !sign.is_empty() {
        let is_value = if is_bare {
            values::is_made(next.text) && next.text.len() >= BARE_MIN
        } else {
            !is_program(next)
        };
        return if is_value && value(next) { 2 } else { 0 };
    }
    let (secret, words) = match (next.text, after) {
        (b"=" | b":" | b":=", Some(after)) => (*after, 3),
        (b"--", Some(after)) if !is_bare && !is_program(after) => (*after, 3),
        // `--password '' V`: what stands there may be a program's own word as well.
        (b"", Some(after)) if !is_bare && is_key(after.text) => (*after, 3),
        ([b'=', _, ..], _) if !next.text.starts_with(b"==") => {
            (next.part(&(1..next.text.len())), 2)
        }
        _ if !is_bare => (*next, 2),
        _ => return 0,
    };
    if value(&secret) { words } else { 0 }
}

/// `-genv NAME V` of MPICH's mpiexec; in a script `set -x NAME V` of fish and `setenv NAME V` of csh.
fn is_variable(pieces: &[Piece<'_>], place: usize, depth: usize) -> bool {
    let mut before = pieces.get(..place).unwrap_or_default().iter().map(|piece| piece.text);
    if before.clone().next_back().is_some_and(|word| matches!(word, b"-genv" | b"-env")) {
        return true;
    }
    match before.next().filter(|_| depth > 0) {
        Some(b"setenv") => place == 1,
        Some(b"set") => (2..=4).contains(&place) && before.all(|word| word.starts_with(b"-")),
        _ => false,
    }
}

/// `--auth A:V B:V`: the words after the first; the place of what follows.
fn more_logins(option: &Piece<'_>, pieces: &[Piece<'_>], from: usize, marks: &mut Marks) -> usize {
    let name = option.text.split(|byte| *byte == b'=').next().unwrap_or_default();
    let mut place = from;
    if !name.starts_with(b"--") || !names::is_logins(name) {
        return place;
    }
    while let Some(piece) = pieces.get(place).filter(|piece| names::is_further_pair(piece.text)) {
        text::held(piece, &(0..piece.text.len()), Sort::Login, marks);
        place = place.saturating_add(1);
    }
    place
}

/// `--api-keys V V V`: the words after the first; the place of what follows.
fn more_values(option: &Piece<'_>, pieces: &[Piece<'_>], from: usize, marks: &mut Marks) -> usize {
    let mut place = from;
    let is_plural = names::is_plural(option.text);
    let behind = more_logins(option, pieces, place, marks);
    if behind > place {
        return behind;
    }
    if !option.text.starts_with(b"--")
        || option.text.contains(&b'=')
        || !is_plural && !names::is_many(option.text)
    {
        return place;
    }
    // `--secrets NAME=V IMAGE`: what follows is of the same form.
    let first = pieces.get(from.saturating_sub(1)).map_or(b"".as_slice(), |piece| piece.text);
    let is_named = first.contains(&b'=');
    // The name of a variable that is handed on: `--secrets HF_TOKEN IMAGE`.
    let of_variable = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'_';
    if first.contains(&b'_') && first.iter().all(of_variable) {
        return place;
    }
    let is_value = |piece: &&Piece<'_>| {
        let is_key = is_plural || values::is_made(piece.text) && !piece.text.contains(&b'/');
        is_key
            && piece.text.contains(&b'=') >= is_named
            && !values::is_option(piece.text)
            && !values::is_path(piece.text)
    };
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
    let is_verb = matches!(piece.text, b"secret" | b"token") || name.starts_with(b"set-");
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

fn value(next: &Piece<'_>, sort: Sort, depth: usize, marks: &mut Marks) -> bool {
    if depth > 0 && values::is_command(next.text) {
        shell::put_in(next, marks);
        return true;
    }
    let refers = depth > 0
        && (values::is_reference(next.text)
            || sinks::is_sign(next.text)
            || is_prose(next.text)
            || sort == Sort::Login && names::is_pair_of_references(next.text));
    if refers || values::is_option(next.text) || !sort.holds(next.text) {
        return false;
    }
    let inner = values::unquoted(next.text);
    text::held(next, &inner, sort, marks);
    true
}

/// What follows an option where a text speaks of it.
fn is_prose(word: &[u8]) -> bool {
    const WORDS: &str = "and or to is in the a of for with from if flag flags flag. flags. option options option. options. \
        argument arguments parameter parameters do? does? mean?";
    WORDS.split_ascii_whitespace().any(|known| known.as_bytes() == word)
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
    if name.starts_with(b"-") || !name.contains(&b'-') && sort != Sort::Authorization {
        return None;
    }
    if is_scheme || !sort.holds(next.text) {
        return Some(false);
    }
    text::held(next, &(0..next.text.len()), sort, marks);
    Some(true)
}

/// A word that holds words.
fn nested(piece: &Piece<'_>, depth: usize, marks: &mut Marks) {
    for words in lists::of_words(piece) {
        command(&words, depth.saturating_add(1), marks);
    }
    if !piece.text.iter().any(u8::is_ascii_whitespace) {
        return;
    }
    let (piece, name) = behind_name(piece);
    let commands = Command::all(&piece);
    shell::said(&commands, marks);
    // `--passwordeval=echo V`, `GIT_ASKPASS=echo V`.
    if let Some(first) = commands.first().filter(|_| names::is_of_secrets(name)) {
        first.mark_said(Sort::Password, marks);
    }
    for one in &commands {
        command(&one.words, depth.saturating_add(1), marks);
        one.plainly(marks, |words, marks| command(words, depth.saturating_add(1), marks));
    }
}

/// `ProxyCommand=sshpass -p V ...`, `--rsh=...`, `-oProxyCommand=...` and `-esshpass ...`: the command alone, and
/// the name before it.
fn behind_name<'a>(piece: &Piece<'a>) -> (Piece<'a>, &'a [u8]) {
    let text = piece.text;
    let dashes = text.iter().take_while(|byte| **byte == b'-').count();
    let name = text::name_at(text, dashes);
    let word = text.get(name.clone()).unwrap_or_default();
    let from = if text.get(name.end) == Some(&b'=') && names::sort(word).is_none() {
        name.end.saturating_add(1)
    } else if dashes == 1 && word.get(1..).is_some_and(programs::is_known) {
        2
    } else {
        0
    };
    (piece.part(&(from..text.len())), if from > 0 { word } else { b"" })
}
