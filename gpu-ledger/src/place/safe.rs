//! Paths of control groups without secrets: what a folder is called, whoever may make one says.

use std::borrow::Cow;

use super::service::unescape;
use crate::argv::{REDACTED, redact_word};

/// A path as it is kept, in every mode: each part by itself without secrets. What kind of unit it is stays, so that
/// the path means what it did; ids of containers, pods and jobs are none.
#[must_use]
pub fn without_secrets(path: &[u8]) -> Cow<'_, [u8]> {
    let parts: Vec<Cow<'_, [u8]>> = path.split(|byte| *byte == b'/').map(part).collect();
    if parts.iter().all(|part| matches!(part, Cow::Borrowed(_))) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(parts.join(&b'/'))
}

fn part(part: &[u8]) -> Cow<'_, [u8]> {
    let kinds = [b".service".as_slice(), b".scope", b".slice"];
    let kind = kinds.into_iter().find(|kind| part.ends_with(kind)).unwrap_or_default();
    let stem = part.strip_suffix(kind).unwrap_or(part);
    let safe = match redact_word(stem) {
        Cow::Owned(safe) => safe,
        Cow::Borrowed(_) => match of_escaped(stem) {
            Some(safe) => safe,
            None => return Cow::Borrowed(part),
        },
    };
    Cow::Owned([safe.as_slice(), kind].concat())
}

/// What systemd's `\xHH` hide is no less a secret; `None` where they hide none.
fn of_escaped(stem: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(stem).ok().filter(|text| text.contains('\\'))?;
    let Cow::Owned(safe) = redact_word(unescape(text).as_bytes()) else { return None };
    // Much that was escaped has no place in a part.
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b":-_.@[]".contains(byte);
    Some(if safe.iter().all(is_part) { safe } else { REDACTED.to_vec() })
}
