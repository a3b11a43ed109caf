//! Passwords in URLs, and addresses that are secrets themselves.

use std::ops::Range;

use super::marks::{Marks, Piece};
use super::text::name_at;
use super::values;

/// Passwords in URLs, and addresses that are secrets themselves.
pub(super) fn mark(piece: &Piece<'_>, marks: &mut Marks) {
    let text = piece.text;
    let mut place = 0;
    while let Some(found) = text.get(place..).and_then(|rest| super::pem::find(rest, b"://")) {
        let begin = place.saturating_add(found).saturating_add(3);
        let rest = text.get(begin..).unwrap_or_default();
        let host =
            rest.iter().take_while(|byte| !ends_url(**byte) && !matches!(byte, b'/' | b'?' | b'#'));
        let end = begin.saturating_add(host.count());
        place = end;
        userinfo(piece, begin..end, marks);
        webhook(piece, begin..end, marks);
    }
}

const fn ends_url(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\' | b'<' | b'>' | b'`')
}

fn userinfo(piece: &Piece<'_>, host: Range<usize>, marks: &mut Marks) {
    /// How far after a host a stray `@` is looked for.
    const LOOK_MAX: usize = 256;
    let text = piece.text;
    let part = |range: Range<usize>| text.get(range).unwrap_or_default();
    let authority = part(host.clone());
    let first = authority.iter().position(|byte| *byte == b':');
    let colon = first.map(|colon| host.start.saturating_add(colon));
    let is_port = colon.is_some_and(|colon| values::is_count(part(colon + 1..host.end)));
    let at = authority.iter().rposition(|byte| *byte == b'@');
    let at = at.map(|at| host.start.saturating_add(at)).or_else(|| {
        // A password with a slash, a question mark or a number sign that nobody escaped.
        colon.filter(|_| !is_port)?;
        let rest = part(host.end..text.len().min(host.end.saturating_add(LOOK_MAX)));
        let url = rest.iter().take_while(|byte| !ends_url(**byte)).count();
        let at = rest.get(..url)?.iter().rposition(|byte| *byte == b'@')?;
        Some(host.end.saturating_add(at))
    });
    match (colon, at) {
        (Some(colon), Some(at)) if colon < at => {
            let user = part(host.start..colon);
            let password = part(colon + 1..at);
            if !values::is_reference(password) {
                marks.put(piece, colon + 1..at);
            }
            // A token as the user, with a password that says nothing.
            if values::is_random(user) && (password.is_empty() || password.starts_with(b"x")) {
                marks.put(piece, host.start..colon);
            }
        }
        (_, Some(at)) if values::is_random(part(host.start..at)) => {
            marks.put(piece, host.start..at);
        }
        // What is cut before the `@` may be a port; that is little to lose.
        (Some(colon), None)
            if piece.is_cut && host.end == text.len() && !authority.contains(&b'[') =>
        {
            marks.put(piece, colon + 1..host.end);
        }
        _ => {}
    }
}

/// `user:V@host` without a scheme, as proxies and database shells take it.
pub(super) fn login_at_host(piece: &Piece<'_>, marks: &mut Marks) {
    /// What stands before a colon and is no user.
    const SCHEMES: &[&[u8]] = &[
        b"npm",
        b"jsr",
        b"mailto",
        b"sip",
        b"sips",
        b"acct",
        b"oci",
        b"docker",
        b"pkg",
        b"github",
        b"git",
        b"ssh",
        b"workspace",
        b"patch",
        b"file",
        b"xmpp",
        b"hf",
    ];
    let text = piece.text;
    let begin = text.iter().position(|byte| *byte == b'=').map_or(0, |equals| equals + 1);
    let begin = if text.starts_with(b"-") { begin } else { 0 };
    let user = name_at(text, begin);
    let word = text.get(user.clone()).unwrap_or_default();
    let at = text.iter().rposition(|byte| *byte == b'@').filter(|at| *at > user.end + 1);
    let Some(at) = at.filter(|_| text.get(user.end) == Some(&b':') && !word.is_empty()) else {
        return;
    };
    let password = user.end + 1..at;
    let host = name_at(text, at + 1);
    let name = text.get(host.clone()).unwrap_or_default();
    let is_address = name.split(|byte| *byte == b'.').count() == 4;
    let is_host = name.first().is_some_and(u8::is_ascii_alphabetic) || is_address;
    let is_over = matches!(text.get(host.end), None | Some(b':' | b'/' | b','));
    // A picture's digest: `image:tag@sha256:...`.
    let is_digest = name.starts_with(b"sha");
    let inner = text.get(password.clone()).unwrap_or_default();
    let is_plain =
        !inner.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'@'));
    if is_host && is_over && !is_digest && is_plain && !SCHEMES.contains(&word) {
        marks.put(piece, password);
    }
}

/// Addresses to which anybody who knows them may post.
fn webhook(piece: &Piece<'_>, host: Range<usize>, marks: &mut Marks) {
    let text = piece.text;
    let name = text.get(host.clone()).unwrap_or_default();
    let rest = text.get(host.end..).unwrap_or_default();
    let skipped = if name == b"hooks.slack.com" || name == b"hooks.slack-gov.com" {
        [b"/services/".as_slice(), b"/workflows/", b"/triggers/"]
            .iter()
            .find_map(|begin| rest.starts_with(begin).then_some(begin.len()))
    } else if name.ends_with(b"discord.com") || name.ends_with(b"discordapp.com") {
        let begin = b"/api/webhooks/";
        rest.starts_with(begin).then(|| {
            let number = rest.iter().skip(begin.len()).take_while(|byte| byte.is_ascii_digit());
            begin.len().saturating_add(number.count()).saturating_add(1)
        })
    } else if name.ends_with(b"webhook.office.com")
        || matches!(name, b"hooks.zapier.com" | b"maker.ifttt.com")
    {
        Some(1)
    } else {
        None
    };
    let Some(skipped) = skipped else { return };
    let length = rest.iter().take_while(|byte| !ends_url(**byte)).count();
    let begin = host.end.saturating_add(skipped);
    marks.put(piece, begin..host.end.saturating_add(length).max(begin));
}
