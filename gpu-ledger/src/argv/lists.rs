//! Commands as lists of texts, in JSON and in programs: `["run", "--token", "V"]`, `subprocess.run(["mysql", "-pV"])`.

use std::ops::Range;

use super::marks::Piece;

/// The lists of two texts and more, each as the words of a command.
pub(super) fn of_words<'a>(piece: &Piece<'a>) -> Vec<Vec<Piece<'a>>> {
    let text = piece.text;
    let byte = |place: usize| text.get(place).copied();
    let mut lists = Vec::new();
    let mut words: Vec<Piece<'a>> = Vec::new();
    // What stood last that is no blank: a text of a list follows a bracket or a comma.
    let mut before = 0;
    let mut place: usize = 0;
    while let Some(now) = byte(place) {
        let slashes = usize::from(now == b'\\');
        let quote = byte(place.saturating_add(slashes)).filter(|byte| matches!(byte, b'"' | b'\''));
        let is_listed = before == b'[' || before == b'(' || before == b',' && !words.is_empty();
        match quote.filter(|_| is_listed) {
            Some(quote) => {
                let Some((word, after)) = quoted(text, place, slashes, quote) else { break };
                if before != b',' {
                    words.clear();
                }
                words.push(piece.part(&word));
                place = after;
                before = quote;
                continue;
            }
            None if matches!(now, b']' | b')') => {
                let list = std::mem::take(&mut words);
                lists.extend((list.len() > 1).then_some(list));
            }
            None if now == b',' || now.is_ascii_whitespace() || now == b'\\' => {}
            None => words.clear(),
        }
        if !now.is_ascii_whitespace() {
            before = now;
        }
        place = place.saturating_add(1);
    }
    lists
}

/// What is between the quote at `place`, with as many backslashes before it as before the one that closes it, and that
/// one; where it ends with its quote.
fn quoted(text: &[u8], place: usize, slashes: usize, quote: u8) -> Option<(Range<usize>, usize)> {
    let begin = place.saturating_add(slashes).saturating_add(1);
    let mut end = begin;
    loop {
        match text.get(end..)? {
            [b'\\', byte, ..] if slashes > 0 && *byte == quote => break,
            [b'\\', ..] => end = end.saturating_add(2),
            [byte, ..] if *byte == quote => break,
            [_, ..] => end = end.saturating_add(1),
            [] => return None,
        }
    }
    let closed = if text.get(end) == Some(&b'\\') { 2 } else { 1 };
    Some((begin..end, end.saturating_add(closed)))
}
