//! What is no account's: nobody's time, what is in doubt, what could not be seen, and what the words mean.

use super::accounts::told;
use super::lanes::title;
use super::markup::{Markup, safe};
use crate::bill::report::Report;
use crate::export::words;
use crate::rendering::{exact, or_unknown};
use crate::unit::{GpuUuid, Ms};
use crate::unknown::GapCause;

/// Lines of a table that are shown.
const LINES_MAX: usize = 200;

pub(super) fn sections(page: &mut Markup, report: &Report) {
    unattributed(page, report);
    in_doubt(page, report);
    rowless(page, report);
    coverage(page, report);
    meanings(page);
}

fn section(page: &mut Markup, id: &str, heading: &str) {
    page.line(format_args!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{heading}</h2>"
    ));
}

/// A table's beginning: its columns, of which those in `n` have figures.
fn table(page: &mut Markup, label: &str, columns: &[(&str, &str)]) {
    page.line(format_args!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{label}\"><table><thead><tr>"
    ));
    for (column, class) in columns {
        page.line(format_args!("<th scope=\"col\" class=\"{class}\">{column}</th>"));
    }
    page.raw("</tr></thead><tbody>\n");
}

fn end(page: &mut Markup, lines: usize) {
    page.raw("</tbody></table></div>\n");
    let more = lines.saturating_sub(LINES_MAX);
    if more > 0 {
        page.line(format_args!(
            "<p class=\"note\">and {more} more: gpu-ledger bill --format json has all.</p>"
        ));
    }
}

fn called(report: &Report, gpu: &GpuUuid) -> String {
    let found = report.gpus.iter().find(|one| one.gpu_uuid == *gpu);
    found.map_or_else(|| safe(&gpu.0), title)
}

fn unattributed(page: &mut Markup, report: &Report) {
    section(page, "unattributed", "Unattributed: settled, and nobody can say whose");
    if report.unattributed.is_empty() {
        page.raw(
            "<p>Nothing: of every settlement shown it is known whose it is.</p>\n</section>\n",
        );
        return;
    }
    table(
        page,
        "Unattributed, by reason",
        &[("reason", ""), ("GPU", ""), ("settlements", "n"), ("held", "n"), ("what it means", "")],
    );
    for line in report.unattributed.iter().take(LINES_MAX) {
        page.line(format_args!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td \
             class=\"means\">{}</td></tr>",
            line.reason,
            called(report, &line.gpu_uuid),
            line.count,
            exact(line.held_ms, report.period.length_ms),
            safe(words::of_nameless(line.reason))
        ));
    }
    end(page, report.unattributed.len());
    page.raw("</section>\n");
}

fn in_doubt(page: &mut Markup, report: &Report) {
    if report.disputed.is_empty() {
        return;
    }
    section(page, "disputed", "Disputed: as the driver gave it, not priced");
    table(
        page,
        "Disputed",
        &[
            ("account", ""),
            ("reason", ""),
            ("settlements", "n"),
            ("ms, raw", "n"),
            ("what it means", ""),
        ],
    );
    for line in report.disputed.iter().take(LINES_MAX) {
        page.line(format_args!(
            "<tr><th scope=\"row\" class=\"name\">{}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td \
             class=\"means\">{}</td></tr>",
            safe(&report.shown.called(&line.account, line.named_by)),
            line.reason,
            line.count,
            line.raw_ms,
            safe(words::of_dispute(line.reason))
        ));
    }
    end(page, report.disputed.len());
    page.raw("</section>\n");
}

fn rowless(page: &mut Markup, report: &Report) {
    if report.no_driver_row.is_empty() {
        return;
    }
    section(page, "rowless", "No driver row: shares a GPU, and is never billed");
    table(
        page,
        "No driver row",
        &[("account", ""), ("pid", "n"), ("GPU", ""), ("seen for", "n"), ("state", "")],
    );
    for one in report.no_driver_row.iter().take(LINES_MAX) {
        let state = match (one.ended, one.lost) {
            (true, Some(cause)) => format!("its row was lost: {cause}"),
            (true, None) => "ended".to_owned(),
            (false, _) => "holds it still".to_owned(),
        };
        page.line(format_args!(
            "<tr><th scope=\"row\" class=\"name\">{}</th><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td>{state}</td></tr>",
            safe(&report.shown.called(&one.account, one.named_by)),
            one.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            called(report, &one.gpu_uuid),
            told(one.seen_ms)
        ));
    }
    end(page, report.no_driver_row.len());
    page.raw("</section>\n");
}

fn coverage(page: &mut Markup, report: &Report) {
    section(page, "coverage", "What could not be seen");
    let coverage = &report.coverage;
    match (&coverage.start, &coverage.end) {
        (Some(start), Some(to)) => page.line(format_args!(
            "<p>Process events were received from {} to {}; {} of that is covered.</p>",
            safe(start),
            safe(to),
            coverage.covered_ms
        )),
        _ => page.raw("<p>Process events: none were received in the period.</p>\n"),
    }
    let unread = report.gpus.iter().filter(|gpu| gpu.unread_ms > Ms::ZERO);
    for gpu in unread {
        page.line(format_args!(
            "<p>Not read yet: the last {} of {}; the next read will tell.</p>",
            gpu.unread_ms,
            title(gpu)
        ));
    }
    if coverage.gaps.is_empty() {
        page.line(format_args!("<p>No gap; {} causes checked.</p>", GapCause::ALL.len()));
    } else {
        gaps(page, report);
    }
    unknowns(page, report);
    page.raw("</section>\n");
}

fn gaps(page: &mut Markup, report: &Report) {
    table(
        page,
        "Gaps",
        &[("gap", ""), ("GPU", ""), ("from", ""), ("to", ""), ("size", "n"), ("what it means", "")],
    );
    for gap in report.coverage.gaps.iter().take(LINES_MAX) {
        page.line(format_args!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"means\">{}</td></tr>",
            gap.cause,
            gap.gpu.as_ref().map_or_else(|| "every GPU".to_owned(), |gpu| called(report, gpu)),
            safe(&gap.from),
            safe(&gap.to),
            or_unknown(gap.size),
            safe(words::of_gap(gap.cause))
        ));
    }
    end(page, report.coverage.gaps.len());
}

fn unknowns(page: &mut Markup, report: &Report) {
    if report.unknown.is_empty() {
        page.raw("<p>UNKNOWN: nothing.</p>\n");
        return;
    }
    table(page, "UNKNOWN", &[("UNKNOWN", ""), ("of what", ""), ("GPU", ""), ("remedy", "")]);
    for line in report.unknown.iter().take(LINES_MAX) {
        page.line(format_args!(
            "<tr><th scope=\"row\">{}</th><td class=\"means\">{}</td><td>{}</td><td class=\"means\">{}</td></tr>",
            safe(&line.reason),
            safe(&line.subject),
            line.gpu.as_ref().map_or_else(|| "-".to_owned(), |gpu| called(report, gpu)),
            line.remedy.as_deref().map_or_else(|| "-".to_owned(), safe)
        ));
    }
    end(page, report.unknown.len());
}

fn meanings(page: &mut Markup) {
    section(page, "words", "Words");
    page.raw(
        "<details><summary>What the words on this page mean</summary>\n<dl class=\"words\">\n",
    );
    for (word, meaning) in words::all() {
        page.line(format_args!("<div><dt>{}</dt><dd>{}</dd></div>", safe(word), safe(meaning)));
    }
    page.raw("</dl></details>\n</section>\n");
}
