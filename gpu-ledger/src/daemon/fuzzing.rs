//! What fuzzing asks of both ends of the socket (`fuzz/README.md`).

use super::request::Request;
use super::stream::{EntryLine, Line};
use crate::journal::canon::encode;

/// Lines as a client sends them and as the daemon answers them: a request or an error; an entry that is one is sent
/// again as it came, and only one with its seal is called proven.
///
/// # Panics
/// Where that does not hold.
pub fn socket(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(request) = Request::parse(line) {
            let is_for_all = matches!(
                request,
                Request::Status
                    | Request::Live
                    | Request::Rows { .. }
                    | Request::HeadAt { .. }
                    | Request::Entry { .. }
                    | Request::Why { .. }
            );
            // What changes something, or shows a file whole, is for those who see everything.
            assert_ne!(request.is_privileged(), is_for_all, "{request:?}");
        }
        let Ok(answer) = serde_json::from_slice::<Line>(line) else { continue };
        if let Some(entry) = &answer.entry {
            answered(entry);
        }
        if let Some(end) = &answer.end {
            drop(end.recovered());
            let _ = end.tree();
        }
    }
}

fn answered(line: &EntryLine) {
    let Ok((entry, is_proven)) = line.entry() else { return };
    assert_eq!(is_proven, line.seal.is_some());
    let again = EntryLine::of(&entry, is_proven);
    let again = again.ok().and_then(|line| line.entry().ok());
    assert_eq!(again.as_ref(), Some(&(entry.clone(), is_proven)));
    if let Ok(Some(why)) = line.why(&entry, is_proven) {
        let again = EntryLine::of(&entry, is_proven).and_then(|line| line.with(&why));
        let again = again.ok().and_then(|line| line.why(&entry, is_proven).ok()).flatten();
        assert_eq!(
            again.as_ref().map(|again| encode(&again.evidence)),
            Some(encode(&why.evidence))
        );
    }
}
