//! Programs whose options or words are secrets without a name that says so.
//!
//! From their manuals. A word that is one of these programs' file name begins its options, wherever it stands: behind
//! `env`, `sudo`, `docker exec` or `sh -c`.

mod logins;
mod places;
mod rules;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::marks::{Marks, Piece};
use super::{containers, text, values};
use rules::Takes::{self, After, Joined, Login, Object, PassPrefix, Value};
use rules::{
    ASKING, CLUSTERS, MYSQL, ORACLE, OTHERS, RULES, RUNNERS, RUNNING, SETTERS, SETTINGS, SHELLS,
    WORDS, Word,
};

/// Words after a program that are looked at for what it is told to do.
const UNDER_MAX: usize = 10;

fn has(list: &str, word: &[u8]) -> bool {
    list.split_ascii_whitespace().any(|known| known.as_bytes() == word)
}

/// Every program that is named here: asked for with each word.
static KNOWN: LazyLock<BTreeSet<&'static [u8]>> = LazyLock::new(|| {
    let ruled = RULES.iter().map(|rule| rule.0).chain(WORDS.iter().map(|word| word.0));
    let lists = ruled.chain([OTHERS, ORACLE, SETTERS, ASKING, SHELLS]);
    lists.flat_map(str::split_ascii_whitespace).map(str::as_bytes).collect()
});

/// Whether a word is the name of one of them.
pub(super) fn is_known(name: &[u8]) -> bool {
    KNOWN.contains(name)
}

/// The program whose words these are, as far as it is known here.
#[derive(Default)]
pub(super) struct Context<'a> {
    program: &'a [u8],
    /// Words since it that are no options, the first few.
    under: Vec<&'a [u8]>,
    /// The word before the one that is looked at.
    before: &'a [u8],
    /// Where the program stands.
    place: usize,
    is_over: bool,
    /// A program was among the words that has a user or a `-u` of its own.
    has_groups: bool,
}

impl<'a> Context<'a> {
    /// The next word.
    pub(super) fn meets(&mut self, piece: &Piece<'a>, place: usize, pieces: &[Piece<'a>]) {
        let before = place.checked_sub(1).and_then(|before| pieces.get(before));
        self.before = before.map_or(b"", |piece| piece.text);
        let name = piece.text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = name.strip_suffix(b".exe").unwrap_or(name);
        self.has_groups |= logins::is_of_groups(name);
        // What a program is given may be named like one, and `open` is lftp's where a script begins with it.
        let is_program = self.runs_others() && (name != b"open" || place == 0);
        if is_known(name) && is_program {
            let (under, before, has_groups) = (Vec::new(), self.before, self.has_groups);
            *self = Self { program: name, under, before, place, is_over: false, has_groups };
        } else if !piece.text.starts_with(b"-") {
            // Options of a program that runs another end where the other begins.
            let is_value = matches!(self.before, b"-P" | b"-f" | b"-d");
            self.is_over |= self.program == b"sshpass" && !is_value;
            if self.under.len() < UNDER_MAX {
                self.under.push(piece.text);
            }
        }
    }

    /// Whether a later word may be another program, which these run.
    fn runs_others(&self) -> bool {
        self.program.is_empty()
            || has(SHELLS, self.program)
            || has(RUNNERS, self.program)
            || self.before == b"--"
            || self.under.iter().any(|word| has(RUNNING, word))
    }

    fn is_under(&self, word: &str) -> bool {
        word.is_empty() || self.under.contains(&word.as_bytes())
    }

    /// Whether `NAME=V` is written to where secrets are, or logs in.
    fn is_secret_of_vault(&self, pair: &[u8]) -> bool {
        const PLACES: [&[u8]; 3] = [b"secret/", b"kv/", b"cubbyhole/"];
        let is_place = |word: &&[u8]| PLACES.iter().any(|place| word.starts_with(place));
        pair.starts_with(b"secret_id=")
            || pair.starts_with(b"value=")
            || self.under.iter().any(is_place)
    }

    /// Whether a name and its value may be two words here.
    pub(super) fn takes_settings(&self) -> bool {
        has(SETTERS, self.program) && self.under.iter().any(|word| has(SETTINGS, word))
    }

    /// Whether the word that was met is a script: `sh -c SCRIPT`, `bash -lc SCRIPT`.
    pub(super) fn is_script(&self) -> bool {
        has(SHELLS, self.program) && matches!(self.before, [b'-', .., b'c'])
    }

    /// Whether this option takes no secret here, though it sounds so.
    pub(super) fn is_switch(&self, option: &[u8]) -> bool {
        let asks = has(ASKING, self.program) || has(MYSQL, self.program);
        asks && option == b"--password"
            // ffmpeg counts its passes.
            || self.program == b"ffmpeg" && option == b"-pass"
            // A name of a secret that is kept elsewhere, and that what follows is one.
            || has("docker podman nerdctl buildah pulumi", self.program) && option == b"--secret"
    }

    /// Marks what the program's own rules say of a word and the next; whether the next was its value.
    pub(super) fn mark(
        &self,
        piece: &Piece<'a>,
        next: Option<&Piece<'a>>,
        in_text: bool,
        marks: &mut Marks,
    ) -> bool {
        self.word(piece, in_text, marks);
        let refers = |value: &[u8]| in_text && values::is_reference(value);
        if self.program.is_empty()
            || self.is_over
            || piece.text.len() < 2
            || !matches!(piece.text, [b'-' | b'/', ..])
        {
            return false;
        }
        for (programs, under, option, takes) in RULES {
            if !has(programs, self.program) || !self.is_under(under) {
                continue;
            }
            let clusters = has(CLUSTERS, self.program);
            let option = option_of(piece.text, option.as_bytes(), *takes, clusters);
            let Some((begin, is_joined)) = option else { continue };
            if is_joined {
                if !refers(piece.text.get(begin..).unwrap_or_default()) {
                    taken(piece, begin, *takes, in_text, marks);
                }
                return false;
            }
            if *takes == Joined {
                continue;
            }
            let Some(next) = next else { return false };
            if values::is_option(next.text) || refers(next.text) {
                return false;
            }
            taken(next, 0, *takes, in_text, marks);
            return true;
        }
        false
    }

    /// A word that is a secret by where it stands.
    fn word(&self, piece: &Piece<'a>, in_text: bool, marks: &mut Marks) {
        let is_none = self.program.is_empty() || piece.text.starts_with(b"-");
        if is_none || values::is_reference(piece.text) {
            return;
        }
        for (programs, after, kind) in WORDS {
            let is_after = piece.text != after.as_bytes() && self.is_under(after);
            if !has(programs, self.program) || !is_after {
                continue;
            }
            let is_secret = match kind {
                Word::Next => self.before == after.as_bytes() && !values::says_nothing(piece.text),
                Word::Any => !values::says_nothing(piece.text),
                Word::Random => values::is_random(piece.text),
                Word::OldToken => piece.text.starts_with(b"s.") && piece.text.len() >= 20,
                Word::Login => {
                    taken(piece, 0, After(b':'), in_text, marks);
                    false
                }
                Word::AfterSign => {
                    if let Some(sign) =
                        piece.text.first().filter(|sign| matches!(sign, b'>' | b'<'))
                    {
                        taken(piece, 0, After(*sign), in_text, marks);
                    }
                    false
                }
                Word::Pair | Word::OfVault => {
                    // From a file, or from what is read.
                    let is_elsewhere = piece.text.ends_with(b"=-")
                        || piece.text.windows(2).any(|two| two == b"=@");
                    if !is_elsewhere && (*kind == Word::Pair || self.is_secret_of_vault(piece.text))
                    {
                        taken(piece, 0, After(b'='), in_text, marks);
                    }
                    false
                }
            };
            if is_secret {
                marks.whole(piece);
            }
        }
    }
}

/// Where the value of an option begins in this word; whether it is in this word at all.
fn option_of(word: &[u8], option: &[u8], takes: Takes, clusters: bool) -> Option<(usize, bool)> {
    if word == option {
        return Some((0, false));
    }
    if let Some(rest) = word.strip_prefix(option) {
        let is_long = option.len() > 3 || option.starts_with(b"--");
        return match (is_long, rest.first()) {
            (true, Some(b'=')) => Some((option.len().saturating_add(1), true)),
            (true, _) => None,
            // A word of its own may begin alike: `-key` with `-k`.
            (false, _) if matches!(takes, PassPrefix | Value) => None,
            (false, _) => Some((option.len(), true)),
        };
    }
    // A cluster that ends in the option's letter.
    match (option, word) {
        ([b'-', letter], [b'-', letters @ .., last]) if clusters && last == letter => {
            letters.iter().all(u8::is_ascii_alphabetic).then_some((0, false))
        }
        _ => None,
    }
}

/// Marks what a value that begins at `begin` holds.
fn taken(piece: &Piece<'_>, begin: usize, takes: Takes, in_text: bool, marks: &mut Marks) {
    let inner = values::unquoted(piece.text.get(begin..).unwrap_or_default());
    let range = begin.saturating_add(inner.start)..begin.saturating_add(inner.end);
    let value = piece.text.get(range.clone()).unwrap_or_default();
    let after = |sign: u8| value.iter().position(|byte| *byte == sign);
    let mut put = |from: usize| {
        let range: Range<usize> = range.start.saturating_add(from)..range.end;
        if !values::says_nothing(piece.text.get(range.clone()).unwrap_or_default()) {
            marks.put(piece, range);
        }
    };
    match takes {
        Value | Joined => put(0),
        Login => match after(b':') {
            // A key as the user, with no password.
            Some(colon)
                if colon.saturating_add(1) == value.len()
                    && values::is_random(value.get(..colon).unwrap_or_default()) =>
            {
                marks.put(piece, range.start..range.start.saturating_add(colon));
            }
            Some(colon) => put(colon.saturating_add(1)),
            None if values::is_random(value) => put(0),
            None => {}
        },
        After(sign) => {
            if let Some(place) = after(sign) {
                put(place.saturating_add(1));
            }
        }
        PassPrefix if value.starts_with(b"pass:") => put(5),
        PassPrefix => {}
        Object => containers::of_secrets(&piece.part(&range), marks),
    }
    // Headers and addresses stand in values, too.
    text::whole(piece, in_text, marks);
}
