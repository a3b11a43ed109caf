//! The helper's side: one question, one answer.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::PathBuf;

use super::answer::{answer, refusal};
use super::asked::{QUESTION_BYTES_MAX, Question, QuestionError};
use super::files::Files;

/// The answer to a line without its end, and whether it has a name.
#[must_use]
pub fn answer_to(
    line: &str,
    files: &Files,
    home_of: impl FnOnce(u32) -> Option<PathBuf>,
) -> (String, Outcome) {
    let question = match Question::parse(line) {
        Ok(question) => question,
        Err(error) => return (refusal(&error.to_string()), Outcome::NoQuestion),
    };
    match files.names_of(&question, home_of) {
        Ok(Some(names)) => (answer(Some(&names)), Outcome::Named),
        Ok(None) => (answer(None), Outcome::Nameless),
        Err(error) => (refusal(&error.to_string()), Outcome::Failed),
    }
}

/// How a question was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// With names.
    Named,
    /// No runtime has any.
    Nameless,
    /// It was none.
    NoQuestion,
    /// What would tell could not be read.
    Failed,
}

/// Reads one question and answers it, as systemd starts a program for a connection (`Accept=yes`,
/// systemd.socket(5)).
///
/// # Errors
/// Where either stream fails; whoever asked has gone then.
pub fn serve(
    asked: impl Read,
    mut answered: impl Write,
    files: &Files,
    home_of: impl FnOnce(u32) -> Option<PathBuf>,
) -> std::io::Result<Outcome> {
    // One byte more than any question with its end, to tell a longer one.
    let most = u64::try_from(QUESTION_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(2);
    let mut line = Vec::new();
    BufReader::new(asked.take(most)).read_until(b'\n', &mut line)?;
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let (answer, outcome) = match std::str::from_utf8(line) {
        Ok(line) => answer_to(line, files, home_of),
        Err(_) => (refusal(&QuestionError::Words.to_string()), Outcome::NoQuestion),
    };
    writeln!(answered, "{answer}")?;
    answered.flush()?;
    Ok(outcome)
}
