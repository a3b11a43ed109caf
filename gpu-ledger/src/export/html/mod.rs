//! A bill as one page for a browser: who held each GPU when, what adds up to what, and what could not be seen.
//!
//! The page asks for nothing outside itself and runs no script: its content security policy allows the one style
//! sheet by its hash, and nothing else. What opens is `details`, so that a keyboard reaches everything. Every
//! colour has a sign beside it. Its size is bounded: pictures are of columns, not of spans, and tables end with how many
//! lines they leave out, and where those are.

mod accounts;
mod around;
mod columns;
mod lanes;
mod look;
mod markup;
#[cfg(test)]
mod tests;
mod time;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use self::look::Looks;
use self::markup::{Markup, safe};
use crate::bill::report::{Report, Through};
use crate::bill::text::left_out_words;

const SHEET: &str = include_str!("page.css");

/// The page. The report is one by process: of another the pictures have nothing to show.
#[must_use]
pub fn page(report: &Report) -> String {
    let looks = Looks::of(report);
    let sheet = format!("{SHEET}{}", looks.sheet());
    let mut page = Markup::default();
    head(&mut page, report, &sheet);
    page.raw("<body>\n<a class=\"skip\" href=\"#lanes\">Skip to the pictures</a>\n");
    look::patterns(&mut page);
    masthead(&mut page, report);
    page.raw("<main>\n");
    lanes::section(&mut page, report, &looks);
    accounts::section(&mut page, report, &looks);
    time::section(&mut page, report, &looks);
    around::sections(&mut page, report);
    page.raw("</main>\n");
    footer(&mut page, report);
    page.raw("</body>\n</html>\n");
    page.into_text()
}

fn head(page: &mut Markup, report: &Report, sheet: &str) {
    let hash = STANDARD.encode(Sha256::digest(sheet.as_bytes()));
    let host = safe(report.host.as_deref().unwrap_or("unknown host"));
    page.line(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'; base-uri \
         'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>GPU bill {}, {host}</title>\n\
         <style>{sheet}</style>\n</head>",
        report.bill_id
    ));
}

fn masthead(page: &mut Markup, report: &Report) {
    let period = &report.period;
    let [since, until] = &period.local;
    page.line(format_args!(
        "<header>\n<p class=\"kind\">GPU bill</p>\n<h1>{}</h1>\n<p class=\"when\">{} to {}, {}</p>",
        safe(report.host.as_deref().unwrap_or("unknown host")),
        safe(since),
        safe(until),
        period.length_ms
    ));
    notices(page, report);
    let head = report.journal_head.as_ref();
    // Of several journals each host's own stands with it.
    let journal = head.map_or_else(
        || "of several hosts".to_owned(),
        |head| format!("entry {}, {}", head.seq, head.hash),
    );
    let tree = head.and_then(|head| head.tree.clone()).unwrap_or_else(|| "UNKNOWN".to_owned());
    let driver = match (report.driver.as_deref(), report.driver_version.as_deref()) {
        (None, _) => "UNKNOWN".to_owned(),
        (Some(kind), version) => format!("{kind}, version {}", version.unwrap_or("UNKNOWN")),
    };
    let as_of = period.local_as_of.as_deref().unwrap_or("UNKNOWN: the journal is empty");
    page.raw("<dl class=\"facts\">\n");
    for (name, value) in [
        ("bill", report.bill_id.as_str()),
        ("as of", as_of),
        ("journal", &journal),
        ("tree head", &tree),
        ("driver", &driver),
        ("shared time", report.share),
    ] {
        page.line(format_args!("<div><dt>{name}</dt><dd>{}</dd></div>", safe(value)));
    }
    page.raw("</dl>\n</header>\n");
}

/// What a reader must know before any figure.
fn notices(page: &mut Markup, report: &Report) {
    let mut notices = Vec::new();
    if report.driver.as_deref() == Some("simulated") {
        notices.push("SIMULATED DRIVER: no GPU was used.".to_owned());
    }
    if let Some(behind) = &report.clock_behind {
        let [now, latest] = &behind.local;
        notices.push(format!("The clock was set back, or is behind the journal's: it is {now}, and the journal speaks of moments up to {latest}."));
    }
    notices.extend(crate::bill::text::missing_words(&report.reading));
    if report.reading.through == Through::Daemon {
        let who = report
            .reading
            .only_uid
            .map(|uid| format!(" Lines of uid {uid} alone; others' are folded into one."));
        notices.push(format!(
            "Read through the daemon: not all of it was proven here.{}",
            who.unwrap_or_default()
        ));
    }
    notices.extend(report.left_out.as_ref().map(left_out_words));
    if !report.is_known() {
        notices.push(
            "Not everything on this bill is known, or was seen: what and why stands under \u{201c}What could not be seen\u{201d}."
                .to_owned(),
        );
    }
    for notice in notices {
        page.line(format_args!(
            "<p class=\"notice\" role=\"note\">{}</p>",
            safe(&notice.replace("\n ", ""))
        ));
    }
}

fn footer(page: &mut Markup, report: &Report) {
    page.line(format_args!(
        "<footer><p>gpu-ledger {}, bill {}. Held is from the first opening of a GPU to the last closing: it is not busy time. \
         <code>gpu-ledger explain ID</code> says why a settlement stands where it does.</p></footer>",
        env!("CARGO_PKG_VERSION"),
        report.bill_id
    ));
}
