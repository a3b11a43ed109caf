//! Passwords in URLs, and addresses that are secrets themselves.

use std::ops::Range;

use super::marks::{Marks, Piece};
use super::text::{name_at, of_name};
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
        // What was marked is looked at no further: there may be many addresses behind each other.
        place = place.max(webhook(piece, begin..end, marks));
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
            let is_token =
                values::is_random(user) && (password.is_empty() || password.starts_with(b"x"));
            if is_token || password == b"x-oauth-basic" {
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

/// Whether it stands before a colon and is no user.
pub(super) fn is_scheme(name: &[u8]) -> bool {
    const SCHEMES: &str =
        "npm jsr mailto sip sips acct oci docker pkg github git ssh workspace patch file xmpp hf";
    SCHEMES.split_ascii_whitespace().any(|known| known.as_bytes() == name)
}

/// `user:V@host` without a scheme, as proxies and database shells take it.
pub(super) fn login_at_host(piece: &Piece<'_>, marks: &mut Marks) {
    let text = piece.text;
    of_oracle(piece, marks);
    let Some(colon) = text.iter().position(|byte| *byte == b':') else { return };
    // The name right before the first colon; before it there may be a path, an option, a bracket.
    let before = text.get(..colon).unwrap_or_default();
    let length = before.iter().rev().take_while(|byte| of_name(**byte)).count();
    let begin = colon.saturating_sub(length);
    let user = before.get(begin..).unwrap_or_default();
    let Some(at) = text.iter().rposition(|byte| *byte == b'@').filter(|at| *at > colon + 1) else {
        return;
    };
    let password = colon + 1..at;
    let host = name_at(text, at + 1);
    let name = text.get(host.clone()).unwrap_or_default();
    let is_address = name.split(|byte| *byte == b'.').count() == 4;
    let is_host = name.first().is_some_and(u8::is_ascii_alphabetic) || is_address;
    // MySQL's `user:V@tcp(host:port)/database`, too.
    let is_over = matches!(
        text.get(host.end),
        None | Some(b':' | b'/' | b',' | b'(' | b')' | b'?' | b'"' | b'\'')
    );
    // A picture's digest: `image:tag@sha256:...`.
    let is_digest = name.starts_with(b"sha");
    let inner = text.get(password.clone()).unwrap_or_default();
    let is_plain =
        !inner.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'@'));
    // `organisation/model:tag@revision` looks like it.
    let is_named = before.get(..begin).is_some_and(|path| path.ends_with(b"/"));
    let is_secret = !is_named || values::is_made(inner);
    let is_login = is_plain && is_secret && !user.is_empty() && !is_scheme(user);
    if is_host && is_over && !is_digest && is_login {
        marks.put(piece, password);
    }
}

/// `jdbc:oracle:thin:user/V@host`.
fn of_oracle(piece: &Piece<'_>, marks: &mut Marks) {
    let begin = b"jdbc:oracle:thin:";
    let Some(login) = piece.text.strip_prefix(begin) else { return };
    let slash = login.iter().position(|byte| *byte == b'/');
    let at = login.iter().position(|byte| *byte == b'@');
    if let Some((slash, at)) = slash.zip(at).filter(|(slash, at)| slash < at) {
        marks.put(piece, begin.len() + slash + 1..begin.len() + at);
    }
}

/// Addresses to which anybody who knows them may post; where the secret ends, or the host where there is none.
fn webhook(piece: &Piece<'_>, host: Range<usize>, marks: &mut Marks) -> usize {
    let text = piece.text;
    let name = text.get(host.clone()).unwrap_or_default();
    let rest = text.get(host.end..).unwrap_or_default();
    let Some(skipped) = hook_of(name, rest).or_else(|| stream(text, &host, rest)) else {
        return bot(piece, host, marks);
    };
    let length = rest.iter().take_while(|byte| !ends_url(**byte)).count();
    let begin = host.end.saturating_add(skipped);
    let end = host.end.saturating_add(length).max(begin);
    marks.put(piece, begin..end);
    end
}

/// How much of the path of a webhook's address comes before its secret.
fn hook_of(name: &[u8], rest: &[u8]) -> Option<usize> {
    /// How far into a path its secret may begin.
    const PATH_MAX: usize = 128;
    let near = rest.get(..PATH_MAX).unwrap_or(rest);
    let path = near.split(|byte| ends_url(*byte)).next().unwrap_or_default();
    let behind = |wanted: &[u8]| {
        super::pem::find(path, wanted).map(|place| place.saturating_add(wanted.len()))
    };
    if name == b"hooks.slack.com" || name == b"hooks.slack-gov.com" {
        return [b"/services/".as_slice(), b"/workflows/", b"/triggers/"]
            .iter()
            .find_map(|begin| path.starts_with(begin).then_some(begin.len()));
    }
    if name.ends_with(b"discord.com") || name.ends_with(b"discordapp.com") {
        let begin = behind(b"/webhooks/").filter(|_| path.starts_with(b"/api/"))?;
        let number = path.iter().skip(begin).take_while(|byte| byte.is_ascii_digit());
        return Some(begin.saturating_add(number.count()).saturating_add(1));
    }
    if name.ends_with(b"webhook.office.com")
        || matches!(name, b"hooks.zapier.com" | b"maker.ifttt.com" | b"hc-ping.com")
    {
        return Some(1);
    }
    if matches!(name, b"open.feishu.cn" | b"open.larksuite.com") {
        return behind(b"/hook/");
    }
    if name == b"outlook.office.com" || name == b"outlook.office365.com" {
        return behind(b"/webhook/");
    }
    // Those of programs that people run themselves: Mattermost's, Rocket.Chat's.
    let begin = behind(b"/hooks/")?;
    let secret = path.get(begin..)?.rsplit(|byte| *byte == b'/').next()?;
    values::is_random(secret).then_some(begin)
}

/// The key of a stream stands last in its address: `rtmp://HOST/APP/KEY`.
fn stream(text: &[u8], host: &Range<usize>, rest: &[u8]) -> Option<usize> {
    /// Where anybody may have a stream, and it is known by its key alone.
    const SITES: [&[u8]; 4] = [b"youtube.com", b"twitch.tv", b"live-video.net", b"facebook.com"];
    const PATH_MAX: usize = 128;
    let scheme = text.get(..host.start.saturating_sub(3))?;
    if !scheme.ends_with(b"rtmp") && !scheme.ends_with(b"rtmps") {
        return None;
    }
    let name = text.get(host.clone())?.split(|byte| *byte == b':').next()?;
    let near = rest.get(..PATH_MAX).unwrap_or(rest);
    let path = near.split(|byte| ends_url(*byte)).next()?;
    let key =
        path.iter().rposition(|byte| *byte == b'/').filter(|slash| *slash > 0)?.saturating_add(1);
    let is_site = SITES.iter().any(|site| name.ends_with(site));
    (is_site || values::is_random(path.get(key..)?)).then_some(key)
}

/// Telegram's `/botNUMBER:V/`, also where another host stands before it.
fn bot(piece: &Piece<'_>, host: Range<usize>, marks: &mut Marks) -> usize {
    const NUMBER_MIN: usize = 6;
    let text = piece.text;
    let rest = text.get(host.end..).unwrap_or_default();
    let path = rest.strip_prefix(b"/file").unwrap_or(rest);
    let Some(number) = path.strip_prefix(b"/bot") else { return host.end };
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits < NUMBER_MIN || number.get(digits) != Some(&b':') {
        return host.end;
    }
    let key = number.iter().skip(digits.saturating_add(1));
    let length = key.take_while(|byte| !ends_url(**byte) && !matches!(byte, b'/' | b'?' | b'#'));
    let begin = host.end.saturating_add(rest.len().saturating_sub(number.len()));
    let end = begin.saturating_add(digits).saturating_add(1).saturating_add(length.count());
    marks.put(piece, begin..end);
    end
}
