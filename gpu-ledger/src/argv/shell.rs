//! Commands inside of a word, about as a shell would take them apart, and what one of them is told by another.

use std::ops::Range;

use super::decoded::{self, Decoded};
use super::marks::{Marks, Piece};
use super::names::{self, Sort};
use super::{sinks, text, values};

/// One command of a text.
pub(super) struct Command<'a> {
    pub(super) words: Vec<Piece<'a>>,
    /// The same with their quotes.
    raw: Vec<Piece<'a>>,
    /// The byte that ended it; a line's end where the text ends.
    pub(super) end: u8,
}

/// Options with which a program reads a secret from its input.
const TAKERS: &str = "--password-stdin --with-token --token-stdin --passphrase-fd -S --stdin login chpasswd --pass-stdin stdin fd:0";
/// More lines than this are no password.
const HERE_LINES_MAX: usize = 64;
/// Programs that do so without an option.
const READERS: &[&[u8]] =
    &[b"passwd", b"chpasswd", b"smbpasswd", b"vncpasswd", b"cryptsetup", b"kinit", b"su"];

impl<'a> Command<'a> {
    /// The commands of a piece.
    pub(super) fn all(piece: &Piece<'a>) -> Vec<Self> {
        let command = |(words, end): (Vec<Range<usize>>, u8)| Command {
            words: words.iter().map(|range| piece.part(&bare(piece.text, range))).collect(),
            raw: words.iter().map(|range| piece.part(range)).collect(),
            end,
        };
        split(piece.text).into_iter().map(command).collect()
    }

    fn first(&self) -> &'a [u8] {
        self.words.first().map_or(b"", |piece| piece.text)
    }

    fn last(&self) -> Option<&Piece<'a>> {
        self.words.last()
    }

    /// Whether it prints what it is given.
    fn says(&self) -> bool {
        matches!(self.first(), b"echo" | b"printf" | b"yes")
    }

    /// Whether it reads a secret.
    pub(super) fn takes(&self) -> bool {
        let is_taker = |piece: &Piece<'_>| {
            TAKERS.split_ascii_whitespace().any(|word| word.as_bytes() == piece.text)
        };
        // `read -r TOKEN <<< V`.
        let reads = || self.words.iter().skip(1).any(|piece| names::sort(piece.text).is_some());
        let mut programs = self.words.iter().take(2);
        self.words.iter().any(is_taker)
            || programs.any(|piece| READERS.contains(&piece.text))
            || self.first() == b"read" && reads()
            || self.stores()
    }

    /// Whether it puts what it reads among a program's secrets: `docker secret create NAME -`, `gh secret set NAME`.
    fn stores(&self) -> bool {
        const VERBS: &str = "create set put add import --data-file=- - /dev/stdin";
        let mut words = self.words.iter().skip(1).map(|piece| piece.text);
        words.by_ref().take(2).any(|word| matches!(word, b"secret" | b"secrets"))
            && words.any(|word| VERBS.split_ascii_whitespace().any(|verb| verb.as_bytes() == word))
    }

    /// Looks with `look` at its words as a shell would have them, where that is more than leaving out the quotes that
    /// enclose a word: `--"token" V`, `--to\\ken V`.
    pub(super) fn plainly(&self, marks: &mut Marks, look: impl FnOnce(&[Piece<'_>], &mut Marks)) {
        let is_quoted =
            |piece: &&Piece<'_>| piece.text.iter().any(|byte| matches!(byte, b'"' | b'\'' | b'\\'));
        if !self.words.iter().any(|piece| is_quoted(&piece)) {
            return;
        }
        let plain: Vec<Decoded> =
            self.raw.iter().map(|piece| Decoded::of_shell(piece.text)).collect();
        if plain.iter().zip(&self.words).any(|(plain, word)| !plain.says(word.text)) {
            decoded::all(&plain, &self.raw, marks, look);
        }
    }

    /// Marks what it prints, where it is a command that does.
    pub(super) fn mark_said(&self, sort: Sort, marks: &mut Marks) {
        if !self.says() {
            return;
        }
        let is_format = |piece: &Piece<'_>| {
            self.first() == b"printf" && piece.text.starts_with(b"%") && self.words.len() > 2
        };
        let printed = self.words.iter().skip(1);
        for piece in printed.take_while(|piece| !sinks::is_redirection(piece.text)) {
            if !values::is_reference(piece.text)
                && !values::is_option(piece.text)
                && !is_format(piece)
            {
                text::held(piece, &(0..piece.text.len()), sort, marks);
            }
        }
    }
}

/// What commands say to another that takes a secret, or write to where secrets are.
pub(super) fn said(commands: &[Command<'_>], marks: &mut Marks) {
    for (place, from) in commands.iter().enumerate() {
        let rest = commands.get(place..).unwrap_or_default();
        // `echo V | docker login --password-stdin`, `printf %s V > /run/token`.
        let sink = sinks::sink(rest);
        if let Some(sort) = sink {
            from.mark_said(sort, marks);
        }
        if let Some(to) = rest.get(1) {
            // `TOKEN=$(echo V)`, `--token $(echo V)`.
            if matches!(from.end, b'(' | b'`') && is_waiting(&from.words) {
                to.mark_said(Sort::Password, marks);
                here(to, &[], Sort::Password, marks);
            }
            after_line(from, to, marks);
        }
        let taken = from.takes().then_some(Sort::Password);
        let is_copied = matches!(from.first(), b"cat" | b"tee" | b"sudo" | b"base64" | b"tr");
        if let Some(sort) = taken.or(sink.filter(|_| is_copied)) {
            // The lines begin where the line of the sign ends.
            let line = rest.iter().take(HERE_LINES_MAX).position(|command| command.end == b'\n');
            let lines = line.and_then(|line| rest.get(line.saturating_add(1)..));
            here(from, lines.unwrap_or_default(), sort, marks);
        }
    }
}

/// Whether what follows is the value of a name that is for a secret.
fn is_waiting(words: &[Piece<'_>]) -> bool {
    let Some((last, before)) = words.split_last() else { return false };
    let open = last.text.strip_suffix(b"$").unwrap_or(last.text);
    let open = open.strip_suffix(b"\"").unwrap_or(open);
    let is_secret = |word: &[u8]| {
        let dashes = word.iter().take_while(|byte| **byte == b'-').count().min(2);
        let name = text::name_at(word, dashes);
        (name.end == word.len()).then(|| word.get(name)).flatten().and_then(names::sort).is_some()
    };
    if let Some(name) = open.strip_suffix(b"=") {
        return is_secret(name.strip_suffix(b"+").unwrap_or(name));
    }
    let option = if open.is_empty() { before.last().map(|piece| piece.text) } else { Some(open) };
    option.is_some_and(|word| word.starts_with(b"-") && is_secret(word))
}

/// `--password` at the end of a line, and the next line is its value.
fn after_line(from: &Command<'_>, to: &Command<'_>, marks: &mut Marks) {
    let (Some(last), Some(value)) = (from.last(), to.words.first()) else { return };
    let is_value = to.words.len() == 1 || values::is_made(value.text);
    if from.end != b'\n' || !is_value || values::is_option(value.text) {
        return;
    }
    let dashes = last.text.iter().take_while(|byte| **byte == b'-').count();
    let name = last.text.get(dashes..).unwrap_or_default();
    let is_name = (1..=2).contains(&dashes) && name.iter().all(|byte| text::of_name(*byte));
    let sort = names::sort(name).filter(|_| is_name && !names::is_switch(name));
    if let Some(sort) = sort.filter(|_| !values::is_reference(value.text)) {
        text::held(value, &(0..value.text.len()), sort, marks);
    }
}

/// `<<< V`, and the lines between `<<END` and `END`.
fn here(command: &Command<'_>, lines: &[Command<'_>], sort: Sort, marks: &mut Marks) {
    let mut words = command.words.iter();
    let Some(sign) = words.find(|piece| piece.text.starts_with(b"<<")) else { return };
    let next = words.next();
    let mut mark = |piece: &Piece<'_>, from: usize| {
        let inner = values::unquoted(piece.text.get(from..).unwrap_or_default());
        let value = from.saturating_add(inner.start)..from.saturating_add(inner.end);
        if !values::is_reference(piece.text.get(value.clone()).unwrap_or_default()) {
            text::held(piece, &value, sort, marks);
        }
    };
    match sign.text {
        b"<<<" => {
            if let Some(next) = next {
                mark(next, 0);
            }
        }
        [b'<', b'<', b'<', ..] => mark(sign, 3),
        [b'<', b'<', end @ ..] => {
            let end = end.strip_prefix(b"-").unwrap_or(end);
            let end =
                if end.is_empty() { next.map_or(b"".as_slice(), |next| next.text) } else { end };
            let end = end.get(values::unquoted(end)).unwrap_or_default();
            let lines = lines.iter().take(HERE_LINES_MAX);
            for line in lines.take_while(|line| line.first() != end) {
                for piece in &line.words {
                    mark(piece, 0);
                }
            }
        }
        _ => {}
    }
}

/// Marks what a command says that stands in the place of a value: `$(echo V)`.
pub(super) fn put_in(piece: &Piece<'_>, marks: &mut Marks) {
    let inner = match piece.text {
        [b'$', b'(', ..] => 2,
        _ => 1,
    };
    let commands = Command::all(&piece.part(&(inner.min(piece.text.len())..piece.text.len())));
    if let Some(first) = commands.first() {
        first.mark_said(Sort::Password, marks);
        here(first, &[], Sort::Password, marks);
    }
}

/// The commands of a text and their words, about as a shell would have them, with their quotes: what a pipe, a semicolon, a bracket, a backtick or a line's end separates is another command.
fn split(text: &[u8]) -> Vec<(Vec<Range<usize>>, u8)> {
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
        // A line that goes on.
        let goes_on = *byte == b'\\' && text.get(place.saturating_add(1)) == Some(&b'\n');
        let ends_command = matches!(byte, b'\n' | b';' | b'|' | b'&' | b'(' | b')' | b'`');
        match (quote, byte) {
            (Some(open), _) if open == *byte => quote = None,
            (Some(b'\''), _) => {}
            (None, b'\\') if goes_on => {
                is_escaped = true;
                words.extend(begun.take().map(|from| from..place));
            }
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
                words.extend(begun.take().map(|from| from..place));
                if ends_command && !words.is_empty() {
                    commands.push((std::mem::take(&mut words), *byte));
                }
            }
            (None, _) => begun = begun.or(Some(place)),
        }
    }
    words.extend(begun.map(|from| from..text.len()));
    if !words.is_empty() {
        commands.push((words, b'\n'));
    }
    commands
}

/// A word without the quotes that enclose it.
fn bare(text: &[u8], word: &Range<usize>) -> Range<usize> {
    let bytes = text.get(word.clone()).unwrap_or_default();
    // A quote of a text in a text opens further in.
    let inner = match bytes {
        [b'\\', b'"' | b'\'', _, ..] => 2..bytes.len(),
        _ => values::unquoted(bytes),
    };
    word.start.saturating_add(inner.start)..word.start.saturating_add(inner.end)
}
