//! The **program** of an image: what a person would call it.
//!
//! Purpose: `train.py` or `vllm.entrypoints.openai.api_server` instead of `python3`, from the argv
//! and the file name of an exec. Pure. May not: guess. Where the arguments that would tell were not
//! captured, the answer is the interpreter, and says so.

mod grammar;

use std::fmt;

use bytes::Bytes;

use self::grammar::{Grammar, Style, grammar_of};
use super::ImageContent;
use crate::argv::redact_word;
use crate::escape::escape;
use crate::kernel::{Argv, ArgvState};

/// What kind of name a program has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProgramKind {
    /// The executable's own file name.
    Executable,
    /// The script that an interpreter runs.
    Script,
    /// The module or class that an interpreter runs.
    Module,
    /// Text given on the command line, named by interpreter and option: `python -c`.
    Inline,
    /// A worker that its parent started to run the parent's own program (Python's multiprocessing
    /// by `spawn` or `forkserver`); named as `Inline`, better named by its parent.
    ParentsWorker,
    /// The title that an interpreted program gave itself; its arguments are overwritten.
    Title,
    /// An interpreter on its own: reading from its input, or with arguments that were not captured.
    Interpreter,
}

/// The program of an image: bytes as they were, escaped where shown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Program {
    name: Bytes,
    kind: ProgramKind,
}

impl Program {
    /// The program of an image, or `None` where neither file name nor arguments were had.
    #[must_use]
    pub fn of(content: &ImageContent) -> Option<Self> {
        let words = argv_words(&content.argv);
        // A link of procfs says which descriptor was executed, not what it is called.
        let file = file_name(&content.filename).filter(|_| !is_procfs_link(&content.filename));
        let called = words.first().map(|word| called_name(word)).filter(|name| !name.is_empty());
        let name = file.or(called)?;
        if let Some(grammar) = grammar_of(name) {
            if is_title(content) {
                let named = words.iter().map(|word| title(word)).find(|title| !title.is_empty());
                return Some(named.map_or_else(
                    || Self::new(name, ProgramKind::Interpreter),
                    |title| Self::new(title, ProgramKind::Title),
                ));
            }
            return Some(interpreted(grammar, name, &words));
        }
        // busybox and toybox are what they are called as.
        if let (b"busybox" | b"toybox", Some(applet)) = (name, called) {
            let shift = usize::from(applet == name);
            let words = words.get(shift..).unwrap_or_default();
            let applet = words.first().map_or(name, |word| called_name(word));
            let grammar = grammar_of(applet);
            return Some(grammar.map_or_else(
                || Self::new(applet, ProgramKind::Executable),
                |grammar| interpreted(grammar, applet, words),
            ));
        }
        // `#!`: the file is the script, and the kernel has put its interpreter in front
        // (fs/binfmt_script.c).
        let script = called.is_some_and(|called| called != name && grammar_of(called).is_some())
            && words.iter().skip(1).any(|word| **word == *content.filename);
        let kind = if script { ProgramKind::Script } else { ProgramKind::Executable };
        Some(Self::new(if script { script_name(&content.filename) } else { name }, kind))
    }

    /// Names are shown to everybody: a script or a title that holds a secret goes without it.
    fn new(name: &[u8], kind: ProgramKind) -> Self {
        Self { name: Bytes::copy_from_slice(&redact_word(name)), kind }
    }

    /// One of this name, as it was told before.
    #[must_use]
    pub fn named(name: &[u8]) -> Self {
        Self::new(name, ProgramKind::Executable)
    }

    /// The name, any bytes but those of a secret.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.name
    }

    /// What kind of name it is.
    #[must_use]
    pub const fn kind(&self) -> ProgramKind {
        self.kind
    }
}

/// Whether a program's name may go on after this word and a blank: `python -c`, `bun dev`.
#[must_use]
pub fn is_name_of_family(word: &str) -> bool {
    grammar::GRAMMARS.iter().any(|grammar| grammar.family == word)
}

/// `/proc/self/exe`, `/proc/PID/exe`, `/proc/self/fd/N`, `/dev/fd/N`: how a program executes itself or a
/// file that has no name (`memfd_create`).
fn is_procfs_link(filename: &[u8]) -> bool {
    filename.starts_with(b"/proc/") || filename.starts_with(b"/dev/fd/")
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.name).fmt(f)
    }
}

/// The complete words of an argv. The last one is left out where the capture ends inside it:
/// [`argv_cut_word`] has what there is of it.
#[must_use]
pub fn argv_words(argv: &Argv) -> Vec<&[u8]> {
    split_argv(argv).0
}

/// The beginning of a word that the capture limit cut.
#[must_use]
pub fn argv_cut_word(argv: &Argv) -> Option<&[u8]> {
    split_argv(argv).1
}

fn split_argv(argv: &Argv) -> (Vec<&[u8]>, Option<&[u8]>) {
    if argv.bytes.is_empty() {
        return (Vec::new(), None);
    }
    let mut words: Vec<&[u8]> = argv.bytes.split(|byte| *byte == 0).collect();
    // What follows the last NUL: nothing, unless cut or written over by the process itself.
    let rest = words.pop().filter(|rest| !rest.is_empty());
    if argv.state == ArgvState::Truncated {
        return (words, rest);
    }
    words.extend(rest);
    (words, None)
}

/// Whether the arguments are no longer those of an exec: one word that is not the name of the
/// interpreter which the executable is, as `setproctitle` leaves it.
pub(super) fn is_title(content: &ImageContent) -> bool {
    let words = argv_words(&content.argv);
    let mut filled = words.iter().filter(|word| !word.is_empty());
    let (Some(first), None) = (filled.next(), filled.next()) else { return false };
    let Some(file) = file_name(&content.filename) else { return false };
    let titled = first.contains(&b' ') || first.windows(2).any(|pair| pair == b"::");
    let called = called_name(first);
    titled && called != file || grammar_of(file).is_some() && grammar_of(called).is_none()
}

/// The part of a title that names the program: `gunicorn: worker [app]` is `gunicorn`.
fn title(word: &[u8]) -> &[u8] {
    let word = word.strip_prefix(b"[").unwrap_or(word);
    let end = word.iter().enumerate().position(|(place, byte)| {
        *byte == b' ' || *byte == b':' && matches!(word.get(place + 1), Some(b' ') | None)
    });
    let first = end.and_then(|end| word.get(..end)).filter(|first| !first.is_empty());
    let first = first.unwrap_or(word);
    first.strip_suffix(b":").unwrap_or(first)
}

/// The last part of a path.
fn base_name(path: &[u8]) -> &[u8] {
    let mut trimmed = path;
    while let Some(shorter) = trimmed.strip_suffix(b"/") {
        trimmed = shorter;
    }
    trimmed.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// The base name of an executable's path; `None` where the path names only a descriptor.
fn file_name(path: &[u8]) -> Option<&[u8]> {
    // The kernel marks the link of a removed file (fs/d_path.c).
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    // execveat(2) by descriptor: fs/exec.c writes /dev/fd/N.
    let by_descriptor = path.starts_with(b"/dev/fd/")
        && !path.get(8..).is_some_and(|rest| rest.contains(&b'/'))
        || path.starts_with(b"/proc/self/fd/");
    let name = base_name(path.strip_prefix(b"/memfd:").unwrap_or(path));
    (!by_descriptor && !name.is_empty()).then_some(name)
}

/// What argv[0] calls the program; a login shell's has a dash in front.
fn called_name(word: &[u8]) -> &[u8] {
    let name = base_name(word);
    name.strip_prefix(b"-").unwrap_or(name)
}

/// A script's name: its file, or the folder of a package's entry file as well, since every
/// package has one of the same name.
fn script_name(path: &[u8]) -> &[u8] {
    let name = base_name(path);
    if name != b"__main__.py" {
        return name;
    }
    let mut slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
    let before = slashes.nth(1).map_or(0, |(place, _)| place + 1);
    path.get(before..).unwrap_or(name)
}

/// What the words of an interpreter make it run.
enum Runs<'a> {
    Script(&'a [u8]),
    Module(&'a [u8]),
    Inline(&'static str, &'a [u8]),
    /// A command of a tool that is more than an interpreter.
    Command(&'a [u8]),
    /// Neither was found.
    Nothing,
}

/// Loaders of loaders that are followed; deeper is taken as it is.
const LOADERS_MAX: usize = 4;

fn interpreted(grammar: &'static Grammar, name: &[u8], words: &[&[u8]]) -> Program {
    let mut words = words.get(1..).unwrap_or_default();
    let (mut grammar, mut name) = (grammar, name);
    for _ in 0..LOADERS_MAX {
        let (runs, rest) = Reader { grammar, words }.read();
        let Runs::Script(path) = runs else { return named(grammar, name, &runs) };
        let loaded = base_name(path);
        match grammar_of(loaded).filter(|_| grammar.style == Style::Loader) {
            Some(inner) => (grammar, name, words) = (inner, loaded, rest),
            None => return named(grammar, name, &runs),
        }
    }
    Program::new(name, ProgramKind::Interpreter)
}

fn named(grammar: &Grammar, name: &[u8], runs: &Runs<'_>) -> Program {
    match runs {
        // An empty word names nothing.
        Runs::Nothing | Runs::Script([]) | Runs::Module([]) => {
            Program::new(name, ProgramKind::Interpreter)
        }
        Runs::Script(path) => match grammar.style {
            Style::Loader => Program::new(base_name(path), ProgramKind::Executable),
            Style::Java if !is_file_of_java(path) => Program::new(path, ProgramKind::Module),
            _ => Program::new(script_name(path), ProgramKind::Script),
        },
        Runs::Module(module) => Program::new(module, ProgramKind::Module),
        Runs::Command(word) => {
            let name = [grammar.family.as_bytes(), b" ", word].concat();
            Program::new(&name, ProgramKind::Executable)
        }
        Runs::Inline(option, text) => inline(grammar, option, text),
    }
}

fn is_file_of_java(path: &[u8]) -> bool {
    [b".jar".as_slice(), b".java"].iter().any(|suffix| path.ends_with(suffix))
}

/// The command with which Python's multiprocessing starts a worker
/// (Lib/multiprocessing/spawn.py, forkserver.py, resource_tracker.py; joblib's loky the same way).
fn is_parents_worker(text: &[u8]) -> bool {
    let begins = [
        b"from multiprocessing.spawn import".as_slice(),
        b"from multiprocessing.forkserver import",
        b"from multiprocessing.resource_tracker import",
        b"from multiprocess.spawn import",
        b"from multiprocess.resource_tracker import",
        b"from joblib.externals.loky",
        b"from torch.multiprocessing.spawn import",
    ];
    begins.iter().any(|begin| text.starts_with(begin))
}

fn inline(grammar: &Grammar, option: &str, text: &[u8]) -> Program {
    let worker = grammar.family == "python" && is_parents_worker(text);
    let kind = if worker { ProgramKind::ParentsWorker } else { ProgramKind::Inline };
    Program::new(format!("{} {option}", grammar.family).as_bytes(), kind)
}

/// What a word is by its look.
enum Word {
    /// `--`: the next word is the script.
    Dashes,
    /// Nothing after it is for the interpreter; a lone dash reads the program from the input.
    End,
    Long,
    Cluster,
    Skipped,
    Plain,
}

/// Reads an interpreter's words from left to right.
struct Reader<'a> {
    grammar: &'static Grammar,
    words: &'a [&'a [u8]],
}

impl<'a> Reader<'a> {
    /// What is run, and the words after it.
    fn read(mut self) -> (Runs<'a>, &'a [&'a [u8]]) {
        let mut inline = None;
        let mut first = true;
        while let Some(word) = self.next() {
            let runs = match self.kind_of(word) {
                Word::Dashes => {
                    let script = self.next();
                    return (script.map_or(Runs::Nothing, Runs::Script), self.words);
                }
                Word::End => break,
                Word::Long => self.long(word),
                Word::Cluster => self.cluster(word),
                Word::Skipped => Runs::Nothing,
                Word::Plain if std::mem::take(&mut first) => self.first(word),
                Word::Plain => Runs::Script(word),
            };
            match runs {
                Runs::Nothing => {}
                // A script may still follow.
                Runs::Inline(option, text) if !self.grammar.inline_ends => {
                    inline = Some((option, text));
                }
                runs => return (runs, self.words),
            }
        }
        (inline.map_or(Runs::Nothing, |(option, text)| Runs::Inline(option, text)), &[])
    }

    fn kind_of(&self, word: &[u8]) -> Word {
        let style = self.grammar.style;
        match word {
            b"--" => Word::Dashes,
            b"-" => Word::End,
            _ if word == self.grammar.ends.as_bytes() => Word::End,
            [b'-', b'-', ..] => Word::Long,
            [b'-', ..] if !self.grammar.clusters => Word::Long,
            [b'-', ..] => Word::Cluster,
            [b'+', ..] if style == Style::Shell => Word::Cluster,
            [b'@', ..] if style == Style::Java => Word::Skipped,
            _ => Word::Plain,
        }
    }

    fn first(&self, word: &'a [u8]) -> Runs<'a> {
        if self.grammar.style != Style::Tool {
            return Runs::Script(word);
        }
        if self.grammar.subcommands.iter().any(|known| known.as_bytes() == word) {
            return Runs::Nothing;
        }
        let like_a_file = word.iter().any(|byte| matches!(byte, b'.' | b'/'));
        if like_a_file { Runs::Script(word) } else { Runs::Command(word) }
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// `--name`, `--name=value`, and the one-dash words of families without clusters.
    fn long(&mut self, word: &'a [u8]) -> Runs<'a> {
        let equals = word.iter().position(|byte| *byte == b'=');
        let name = equals.and_then(|end| word.get(..end)).unwrap_or(word);
        let attached = equals.and_then(|end| word.get(end + 1..));
        self.option(name, attached)
    }

    /// `-x`, `-xyz`, `-xVALUE`, `+x`.
    fn cluster(&mut self, word: &'a [u8]) -> Runs<'a> {
        for place in 1..word.len() {
            let Some(letter) = word.get(place) else { break };
            let rest = word.get(place + 1..).filter(|rest| !rest.is_empty());
            let name = [b'-', *letter];
            if self.grammar.attached.as_bytes().contains(letter) {
                break;
            }
            if self.grammar.style == Style::Shell {
                // A shell's letters never hold their value: it is in the words that follow.
                if let runs @ Runs::Inline(..) = self.option(&name, None) {
                    return runs;
                }
                continue;
            }
            if self.takes_word(&name) {
                return self.option(&name, rest);
            }
        }
        Runs::Nothing
    }

    fn takes_word(&self, name: &[u8]) -> bool {
        let lists =
            [self.grammar.inline, self.grammar.script, self.grammar.module, self.grammar.value];
        lists.iter().any(|list| list.iter().any(|known| known.as_bytes() == name))
    }

    fn option(&mut self, name: &[u8], attached: Option<&'a [u8]>) -> Runs<'a> {
        let find =
            |list: &[&'static str]| list.iter().copied().find(|known| known.as_bytes() == name);
        let grammar = self.grammar;
        if let Some(option) = find(grammar.inline) {
            let text = attached.or_else(|| self.next()).unwrap_or_default();
            return Runs::Inline(option, text);
        }
        let word = |reader: &mut Self| attached.or_else(|| reader.next());
        if find(grammar.script).is_some() {
            return word(self).map_or(Runs::Nothing, Runs::Script);
        }
        if find(grammar.module).is_some() {
            return word(self).map_or(Runs::Nothing, Runs::Module);
        }
        if find(grammar.value).is_some() {
            word(self);
        }
        Runs::Nothing
    }
}

#[cfg(test)]
mod tests;
