//! How a window ended, where a reader has to know: before its time, or with a command that failed.

use super::events::EndCause;
use super::files::{CommandStatus, Derived};
use super::moment::Length;
use super::verdict::or_unknown;

/// What every report says of it; nothing of a window that ended as it was meant to. `requested`: how long it was to
/// be, where that was said.
#[must_use]
pub fn notes(derived: &Derived, requested: Option<Length>) -> Vec<String> {
    let length = derived.figures.duration_ms;
    let of = |what: &str| {
        let all = requested.map_or_else(String::new, |requested| format!(" of {requested} ms"));
        format!("{what} after {} ms{all}", or_unknown(length))
    };
    let is_short =
        requested.is_some_and(|requested| length.is_none_or(|length| length < requested));
    let mut notes = Vec::new();
    let end = derived.end.as_ref();
    match end.map(|end| end.cause) {
        Some(cause) if cause != EndCause::Duration && end.is_some_and(|end| end.is_asked_for) => {
            notes.push(of("stopped early by whoever recorded it,"));
        }
        Some(EndCause::CommandEnded) if is_short => notes.push(of("the command ended")),
        Some(EndCause::DeviceLost) => notes.push(of("the GPU or its driver was lost")),
        Some(EndCause::NotWritten) => notes.push(of("rows could not be written any more")),
        None => notes.push(of("cut off: the recorder did not get to its end,")),
        Some(
            EndCause::CommandEnded
            | EndCause::Duration
            | EndCause::NoFirstSample
            | EndCause::Stopped,
        ) => {}
    }
    notes.extend(derived.command.and_then(failed));
    notes
}

/// That a command failed, and how.
fn failed(command: CommandStatus) -> Option<String> {
    match (command.status, command.signal) {
        (Some(0), _) => None,
        (Some(127), _) => {
            Some("the command exited with status 127 (as shells say: not found)".to_owned())
        }
        (Some(status), _) => Some(format!("the command exited with status {status}")),
        (None, Some(signal)) => {
            let name = nix::sys::signal::Signal::try_from(signal);
            let name = name.map_or_else(|_| String::new(), |name| format!(" ({name})"));
            Some(format!("the command was ended by signal {signal}{name}"))
        }
        (None, None) => Some("how the command ended is UNKNOWN".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_failed_says_how() {
        let of = |status, signal| failed(CommandStatus { status, signal });
        assert_eq!(of(Some(0), None), None);
        assert_eq!(of(Some(3), None).unwrap(), "the command exited with status 3");
        assert_eq!(of(None, Some(9)).unwrap(), "the command was ended by signal 9 (SIGKILL)");
        assert!(of(Some(127), None).unwrap().contains("not found"));
        assert_eq!(of(None, None).unwrap(), "how the command ended is UNKNOWN");
    }
}
