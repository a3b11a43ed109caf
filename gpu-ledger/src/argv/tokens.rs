//! Tokens that are known by their form, wherever they stand.
//!
//! The forms are those that the issuers publish for secret scanners (GitHub's "supported secret scanning
//! patterns", the rules of gitleaks and trufflehog list the same): prefix, alphabet, least length.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::marks::{Marks, Piece};
use super::values;

#[derive(Clone, Copy)]
enum Of {
    /// Letters and digits.
    Plain,
    /// And `_`.
    Word,
    /// And `_`, `-`.
    Url,
    /// And `_`, `-`, `.`.
    Dotted,
    /// And `_`, `-`, `.`, `/`, `+`, `=`, `~`.
    Base64,
    Hex,
    /// Capitals and digits.
    Upper,
}

impl Of {
    const fn has(self, byte: u8) -> bool {
        match self {
            Self::Plain => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Base64 => {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'+' | b'=' | b'~')
            }
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }
    }
}

/// How far a token is looked at to tell whether it is one.
const LOOK_MAX: usize = 256;

/// Prefixes, what follows them, and how much of it at least.
const FORMS: &[(Of, usize, &[&str])] = &[
    // AI and machine learning.
    (
        Of::Url,
        20,
        &["sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-", "sk-lf-", "nvapi-"],
    ),
    (
        Of::Plain,
        20,
        &["hf_", "api_org_", "gsk_", "xai-", "r8_", "pplx-", "fw_", "csk-", "jina_", "rpa_", "fc-"],
    ),
    (
        Of::Url,
        20,
        &["tgp_v1_", "tvly-", "pcsk_", "lsv2_pt_", "lsv2_sk_", "wandb_v1_", "esecret_", "ABSK"],
    ),
    (Of::Hex, 32, &["e2b_", "ls__"]),
    // Forges and registries.
    (Of::Plain, 20, &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_"]),
    (Of::Word, 30, &["github_pat_"]),
    (
        Of::Dotted,
        15,
        &[
            "glpat-",
            "gldt-",
            "glrt-",
            "glcbt-",
            "glptt-",
            "glft-",
            "glsoat-",
            "glimt-",
            "glagent-",
            "gloas-",
            "glffct-",
            "GR1348941",
        ],
    ),
    (Of::Url, 16, &["pypi-AgE", "dckr_pat_", "dckr_oat_", "CLOJARS_"]),
    (Of::Hex, 40, &["rubygems_", "bkua_", "sgp_"]),
    (Of::Base64, 20, &["ATATT3", "ATCTT3", "ATBB"]),
    // Clouds and platforms.
    (Of::Url, 30, &["AIza", "1//0"]),
    (Of::Dotted, 20, &["ya29.", "GOCSPX-"]),
    (Of::Hex, 40, &["dop_v1_", "doo_v1_", "dor_v1_", "pul-", "sbp_"]),
    (Of::Hex, 32, &["dapi"]),
    (Of::Plain, 20, &["dp.pt.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."]),
    (Of::Dotted, 20, &["dp.st.", "hvs.", "hvb.", "hvr."]),
    (
        Of::Url,
        20,
        &["HRKU-", "NRAK-", "NRJS-", "glc_", "glsa_", "pscale_tkn_", "pscale_pw_", "pscale_oauth_"],
    ),
    (
        Of::Url,
        20,
        &[
            "sb_secret_",
            "figd_",
            "phx_",
            "phc_",
            "sess-",
            "CFPAT-",
            "pnu_",
            "dnkey-",
            "NRII-",
            "CCIPAT_",
            "sha256~",
            "xkeysib-",
            "lin_api_",
        ],
    ),
    (Of::Base64, 20, &["sntrys_", "sntryu_", "dt0c01."]),
    (Of::Plain, 30, &["comfyui-", "llx-", "AKCp"]),
    (Of::Hex, 40, &["sk_", "sqp_", "squ_", "sqa_"]),
    (Of::Base64, 20, &["fm1_", "fm2_", "fo1_"]),
    (Of::Url, 30, &["SWMTKN-1-"]),
    // 1Password's service accounts (gitleaks, rule 1password-service-account-token).
    (Of::Base64, 30, &["ops_eyJ"]),
    // developers.cloudflare.com, "Token formats": 40 characters and a checksum.
    (Of::Plain, 40, &["cfk_", "cfut_", "cfat_"]),
    (Of::Upper, 40, &["AGE-SECRET-KEY-1"]),
    (Of::Url, 10, &["tskey-auth-", "tskey-api-", "tskey-client-"]),
    (Of::Plain, 12, &["LTAI"]),
    // Payments, mail, chat, work.
    (
        Of::Plain,
        10,
        &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_", "whsec_"],
    ),
    (
        Of::Url,
        10,
        &[
            "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxc-", "xoxd-", "xapp-",
            "xoxe-", "xoxe.xox",
        ],
    ),
    (Of::Hex, 32, &["shpat_", "shpss_", "shpca_", "shppa_", "key-"]),
    (
        Of::Url,
        20,
        &[
            "sq0atp-",
            "sq0csp-",
            "PMAK-",
            "shippo_live_",
            "shippo_test_",
            "duffel_live_",
            "duffel_test_",
            "EZTK",
            "EZAK",
        ],
    ),
    (Of::Plain, 36, &["ntn_", "secret_"]),
];

type Form = (&'static [u8], Of, usize);

/// The same: what begins with a byte is looked up at every place where a token may begin.
static BY_FIRST_BYTE: LazyLock<BTreeMap<u8, Vec<Form>>> = LazyLock::new(|| {
    let mut forms: BTreeMap<u8, Vec<Form>> = BTreeMap::new();
    for (of, least, prefixes) in FORMS {
        for prefix in *prefixes {
            if let Some(first) = prefix.as_bytes().first() {
                forms.entry(*first).or_default().push((prefix.as_bytes(), *of, *least));
            }
        }
    }
    forms
});

/// Marks every known token in a piece.
pub(super) fn mark(piece: &Piece<'_>, marks: &mut Marks) {
    let text = piece.text;
    let mut place = 0;
    while place < text.len() {
        if !is_boundary(text, place) {
            place = place.saturating_add(1);
            continue;
        }
        match token_at(piece, place) {
            Some(end) if end > place => {
                marks.put(piece, place..end);
                place = end;
            }
            _ => place = place.saturating_add(1),
        }
    }
    in_the_middle(piece, marks);
}

/// Whether a token may begin here.
fn is_boundary(text: &[u8], place: usize) -> bool {
    let back = |by: usize| place.checked_sub(by).and_then(|at| text.get(at)).copied();
    match (back(1), back(2)) {
        // `\n` in a text of a program.
        (Some(b'n' | b't' | b'r'), Some(b'\\')) | (None, _) => true,
        (Some(byte), _) => !byte.is_ascii_alphanumeric() && byte != b'_',
    }
}

/// Where the run of an alphabet ends, and whether the capture ends in it.
fn run(piece: &Piece<'_>, from: usize, of: Of) -> (usize, bool) {
    let rest = piece.text.get(from..).unwrap_or_default();
    let length = rest.iter().position(|byte| !of.has(*byte)).unwrap_or(rest.len());
    let end = from.saturating_add(length);
    (end, piece.is_cut && end == piece.text.len())
}

/// The end of the token that begins at `place`.
fn token_at(piece: &Piece<'_>, place: usize) -> Option<usize> {
    let rest = piece.text.get(place..)?;
    let first = rest.first()?;
    for (prefix, of, least) in BY_FIRST_BYTE.get(first).map(Vec::as_slice).unwrap_or_default() {
        if rest.starts_with(prefix) {
            let from = place.saturating_add(prefix.len());
            let (end, is_cut) = run(&looked(piece, place), from, *of);
            if end.saturating_sub(from) >= *least || is_cut && end > from {
                return Some(run(piece, from, *of).0);
            }
        }
    }
    special(piece, place, *first)
}

/// The piece up to where a token that begins at `place` is looked at.
fn looked<'a>(piece: &Piece<'a>, place: usize) -> Piece<'a> {
    let end = piece.text.len().min(place.saturating_add(LOOK_MAX));
    piece.part(&(0..end))
}

fn special(piece: &Piece<'_>, place: usize, first: u8) -> Option<usize> {
    let near = looked(piece, place);
    let rest = piece.text.get(place..)?;
    let after =
        |prefix: &[u8]| rest.starts_with(prefix).then(|| place.saturating_add(prefix.len()));
    let part = |range: Range<usize>| near.text.get(range).unwrap_or_default();
    match first {
        // OpenAI and those that took its form over. Packages and files begin so, too.
        b's' if rest.starts_with(b"sk-") => {
            let from = after(b"sk-")?;
            let (end, is_cut) = run(&near, from, Of::Url);
            let key = part(from..end);
            let made = key.len() >= 20
                && values::longest_run(key) >= 16
                && key.iter().any(u8::is_ascii_digit);
            (made || is_cut && end > from).then(|| run(piece, from, Of::Url).0)
        }
        // AWS: the id of a key is worth as little as a name, and is half of what is needed.
        b'A' => {
            let ids: [&[u8]; 5] = [b"AKIA", b"ASIA", b"ABIA", b"ACCA", b"AIDA"];
            let from = ids.into_iter().find_map(after)?;
            let (end, is_cut) = run(&near, from, Of::Upper);
            let is_over = !near.text.get(end).is_some_and(u8::is_ascii_alphanumeric);
            let length = end.saturating_sub(from);
            (length == 16 && is_over || is_cut && (1..16).contains(&length)).then_some(end)
        }
        b'S' if rest.starts_with(b"SG.") => {
            let from = after(b"SG.")?;
            let (middle, cut_early) = run(&near, from, Of::Url);
            let (end, is_cut) = run(&near, middle.saturating_add(1), Of::Url);
            let lengths = (middle.saturating_sub(from), end.saturating_sub(middle));
            let dotted = near.text.get(middle) == Some(&b'.');
            let whole = dotted && lengths.0 >= 16 && (lengths.1 >= 17 || is_cut);
            (whole || cut_early && middle > from).then_some(if dotted { end } else { middle })
        }
        // Twilio: `SK` and 32 digits of base 16.
        b'S' if rest.starts_with(b"SK") => {
            let from = after(b"SK")?;
            let (end, _) = run(&near, from, Of::Hex);
            (end.saturating_sub(from) == 32).then_some(end)
        }
        b'e' if rest.starts_with(b"eyJ") => jwt(piece, place),
        b'M' | b'N' | b'O' => discord(&near, place),
        _ => None,
    }
}

/// Three parts with dots between them, the first of which is an object (RFC 7519), or Grafana's object alone.
fn jwt(piece: &Piece<'_>, place: usize) -> Option<usize> {
    /// Heads and bodies are longer than other tokens.
    const JWT_LOOK_MAX: usize = 2_048;
    let near = piece.part(&(0..piece.text.len().min(place.saturating_add(JWT_LOOK_MAX))));
    let (end, is_cut) = run(&near, place, Of::Dotted);
    let token = near.text.get(place..end)?;
    let mut parts = token.split(|byte| *byte == b'.');
    let (head, body, sign) = (parts.next()?, parts.next(), parts.next());
    let long = |part: Option<&[u8]>| part.is_some_and(|part| part.len() >= 8);
    let whole = head.len() >= 12
        && (long(body) && long(sign) || body.is_some_and(|body| body.starts_with(b"eyJ")));
    let grafana = token.starts_with(b"eyJrIjoi") && head.len() >= 40;
    (whole || grafana || is_cut && head.len() >= 6).then(|| run(piece, place, Of::Dotted).0)
}

/// The token of a bot: its number in base 64, a time, a signature.
fn discord(near: &Piece<'_>, place: usize) -> Option<usize> {
    let (one, _) = run(near, place, Of::Url);
    let (two, _) = run(near, one.saturating_add(1), Of::Url);
    let (three, _) = run(near, two.saturating_add(1), Of::Url);
    let dot = |at: usize| near.text.get(at) == Some(&b'.');
    let lengths = (
        one.saturating_sub(place),
        two.saturating_sub(one.saturating_add(1)),
        three.saturating_sub(two.saturating_add(1)),
    );
    let fits = (24..=28).contains(&lengths.0) && (6..=7).contains(&lengths.1) && lengths.2 >= 27;
    (fits && dot(one) && dot(two)).then_some(three)
}

/// Tokens that have their mark inside: Telegram's `NUMBER:KEY` and Azure's `abc8Q~KEY`.
fn in_the_middle(piece: &Piece<'_>, marks: &mut Marks) {
    let text = piece.text;
    for (place, byte) in text.iter().enumerate() {
        let back = |from: usize, of: fn(&u8) -> bool| {
            let before = text.get(from.saturating_sub(LOOK_MAX)..from).unwrap_or_default();
            before.iter().rev().take_while(|byte| of(byte)).count()
        };
        let near = looked(piece, place);
        match byte {
            b':' => {
                let digits = back(place, u8::is_ascii_digit);
                let (end, _) = run(&near, place.saturating_add(1), Of::Url);
                let length = end.saturating_sub(place.saturating_add(1));
                let is_key = text.get(place.saturating_add(1)) == Some(&b'A');
                if (5..=16).contains(&digits) && (34..=36).contains(&length) && is_key {
                    marks.put(piece, place.saturating_sub(digits)..end);
                }
            }
            b'~' if place >= 5 && text.get(place - 1) == Some(&b'Q') => {
                let is_digit = text.get(place - 2).is_some_and(u8::is_ascii_digit);
                let (end, _) = run(&near, place.saturating_add(1), Of::Base64);
                if is_digit && (31..=36).contains(&end.saturating_sub(place + 1)) {
                    marks.put(piece, place - 5..end);
                }
            }
            _ => {}
        }
    }
}
