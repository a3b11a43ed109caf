//! How the bytes of one run are more than one thing: parts between marks, and changes to what was good.

/// What stands between two parts.
const MARK: &[u8] = b"\n%%\n";
/// Bytes of a change: what is done, where, and with which byte.
const CHANGE: usize = 5;
/// Changes that are made.
const CHANGES_MAX: usize = 64;

/// The parts of an input, in their order.
pub(crate) fn parts(bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) {
        let (part, behind) = rest.split_at(at);
        parts.push(part);
        rest = behind.get(MARK.len()..).unwrap_or_default();
    }
    parts.push(rest);
    parts
}

/// The first byte, and what is behind it.
pub(crate) fn chosen(bytes: &[u8]) -> (usize, &[u8]) {
    bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest))
}

/// What was good, after the changes that the input says: a byte set or turned, bytes put in, taken out or doubled, the
/// end cut off, or all of it replaced.
pub(crate) fn changed(good: &[u8], input: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for change in input.chunks_exact(CHANGE).take(CHANGES_MAX) {
        let [what, high, middle, low, byte] = change else { continue };
        let place = u32::from_be_bytes([0, *high, *middle, *low]);
        let at = usize::try_from(place).unwrap_or(0).checked_rem(bytes.len()).unwrap_or(0);
        let length = usize::from(*byte);
        let end = at.saturating_add(length).min(bytes.len());
        match what % 8 {
            0 | 1 => set(&mut bytes, at, |_| *byte),
            2 => set(&mut bytes, at, |old| old ^ 1_u8.rotate_left(u32::from(byte % 8))),
            3 => set(&mut bytes, at, |old| old.wrapping_add(*byte)),
            4 => bytes.insert(at, *byte),
            5 => drop(bytes.drain(at..end)),
            6 => {
                let again = bytes.get(at..end).unwrap_or_default().to_vec();
                bytes.splice(at..at, again);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn set(bytes: &mut [u8], at: usize, to: impl FnOnce(u8) -> u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = to(*byte);
    }
}

/// Whether nobody's terminal is written to by a text.
pub(crate) fn is_printable(text: &str) -> bool {
    !text.chars().any(|c| c != '\n' && crate::escape::is_unprintable(c))
}
