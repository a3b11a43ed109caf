//! Totals by account, each with its processes.

use std::collections::BTreeMap;

use super::look::{Looks, name_of, swatch};
use super::markup::{Markup, safe};
use crate::bill::LineKey;
use crate::bill::period::{moment_of, show};
use crate::bill::report::{Account, Open, Report, Settled};
use crate::prices::Amount;
use crate::rendering::{exact, or_unknown};
use crate::unit::{GpuUuid, Ms, WallUs};

/// Accounts that are shown.
const ACCOUNTS_MAX: usize = 300;
/// Processes of one account that are shown: those that held longest.
pub(super) const PROCESSES_MAX: usize = 200;
/// Processes of all accounts that are shown.
const ALL_PROCESSES_MAX: usize = 4_000;

pub(super) fn section(page: &mut Markup, report: &Report, looks: &Looks) {
    page.raw(
        "<section id=\"accounts\" aria-labelledby=\"accounts-h\">\n<h2 id=\"accounts-h\">By account</h2>\n\
         <p class=\"note\">Held is the union of an account's settled spans on each GPU: booked. Open runs still: accrued, \
         not booked, and replaced when it settles. Alone and shared are about other accounts.</p>\n",
    );
    if report.accounts.is_empty() {
        page.raw("<p>No account held a GPU.</p>\n</section>\n");
        return;
    }
    let currency = report.priced.as_ref().map(|priced| priced.currency.as_str());
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"accounts-h\"><table class=\"accounts\">\n<thead><tr><th scope=\"col\">account</th><th scope=\"col\">settled, open</th>");
    for column in ["held", "open", "alone", "shared", "not seen", "settlements"] {
        page.line(format_args!("<th scope=\"col\" class=\"n\">{column}</th>"));
    }
    if let Some(currency) = currency {
        page.line(format_args!("<th scope=\"col\" class=\"n\">booked, {}</th>", safe(currency)));
    }
    page.raw("</tr></thead>\n");
    let most = report.accounts.iter().map(|line| line.settled_or_open_ms.0).max().unwrap_or(0);
    let processes = Processes::of(report);
    let mut left = ALL_PROCESSES_MAX;
    for line in report.accounts.iter().take(ACCOUNTS_MAX) {
        account(page, report, looks, line, most);
        processes.write(page, report, line, &mut left);
        page.raw("</tbody>\n");
    }
    page.raw("</table></div>\n");
    let more = report.accounts.len().saturating_sub(ACCOUNTS_MAX);
    if more > 0 {
        page.line(format_args!(
            "<p class=\"note\">and {more} more accounts: gpu-ledger bill --format csv has all.</p>"
        ));
    }
    page.raw("</section>\n");
}

fn account(page: &mut Markup, report: &Report, looks: &Looks, line: &Account, most: u64) {
    let by = line.named_by.map(|by| format!(" <span class=\"by\">{by}</span>")).unwrap_or_default();
    page.line(format_args!(
        "<tbody>\n<tr><th scope=\"row\">{}<span class=\"name\">{}</span>{by}</th><td>{}</td>",
        swatch(Some(looks.look(line.line)), None),
        name_of(report, line),
        bar(looks, line, most)
    ));
    let whole = report.period.length_ms;
    for ms in [line.held_ms, line.open_ms, line.alone_ms, line.shared_ms, line.uncovered_ms] {
        page.line(format_args!("<td class=\"n\">{}</td>", exact(ms, whole)));
    }
    page.line(format_args!("<td class=\"n\">{}</td>", line.settlements));
    if report.priced.is_some() {
        page.line(format_args!("<td class=\"n\">{}</td>", or_unknown(booked(report, line.line))));
    }
    page.raw("</tr>\n");
}

/// Settled beside open, against the largest account.
fn bar(looks: &Looks, line: &Account, most: u64) -> String {
    let width = |ms: u64| {
        let scaled = u128::from(ms).saturating_mul(140).checked_div(most.into()).unwrap_or(0);
        // Something is never nothing.
        scaled.max(u128::from(ms > 0))
    };
    let settled = width(line.held_ms.0);
    let open = width(line.settled_or_open_ms.0.saturating_sub(line.held_ms.0));
    let class = looks.look(line.line).class();
    format!(
        "<svg class=\"meter\" viewBox=\"0 0 144 12\" aria-hidden=\"true\" focusable=\"false\"><path class=\"{class}\" d=\"M0 \
         1h{}v10h-{}z\"/><path class=\"over\" fill=\"url(#open)\" d=\"M{settled} 1h{open}v10h-{open}z\"/><path class=\"rim\" \
         d=\"M0 1h{settled}v10h-{settled}z\"/></svg>",
        settled.saturating_add(open),
        settled.saturating_add(open)
    )
}

/// What is booked of a line; `None` where an amount of it is UNKNOWN.
fn booked(report: &Report, line: LineKey) -> Option<Amount> {
    let priced = report.priced.as_ref()?;
    let of_line = priced.lines.iter().filter(|of| of.is_booked && of.line == Some(line));
    of_line.map(|of| of.amount).try_fold(Amount::ZERO, |sum, amount| sum.checked_add(amount?))
}

/// Processes by account, those that held longest first.
struct Processes<'r> {
    settled: BTreeMap<LineKey, Vec<&'r Settled>>,
    open: BTreeMap<LineKey, Vec<&'r Open>>,
}

impl<'r> Processes<'r> {
    fn of(report: &'r Report) -> Self {
        let mut settled: BTreeMap<LineKey, Vec<&Settled>> = BTreeMap::new();
        for one in report.settlements.iter().flatten() {
            settled.entry(one.line).or_default().push(one);
        }
        for of_line in settled.values_mut() {
            of_line.sort_by_key(|one| (std::cmp::Reverse(one.in_period_ms), one.seq));
        }
        let mut open: BTreeMap<LineKey, Vec<&Open>> = BTreeMap::new();
        for one in &report.open {
            open.entry(one.line).or_default().push(one);
        }
        Self { settled, open }
    }

    fn write(&self, page: &mut Markup, report: &Report, line: &Account, left: &mut usize) {
        let none: (&[&Settled], &[&Open]) = (&[], &[]);
        let settled = self.settled.get(&line.line).map_or(none.0, Vec::as_slice);
        let open = self.open.get(&line.line).map_or(none.1, Vec::as_slice);
        let all = settled.len().saturating_add(open.len());
        if all == 0 {
            return;
        }
        let shown = PROCESSES_MAX.min(*left);
        let columns = if report.priced.is_some() { 9 } else { 8 };
        page.line(format_args!(
            "<tr class=\"of\"><td colspan=\"{columns}\"><details><summary>{all} process{} of {}</summary>\n<table \
             class=\"processes\"><thead><tr><th scope=\"col\">program</th><th scope=\"col\" class=\"n\">pid</th><th \
             scope=\"col\">GPU</th><th scope=\"col\">start</th><th scope=\"col\" class=\"n\">in period</th><th scope=\"col\" \
             class=\"n\">alone</th><th scope=\"col\" class=\"n\">shared</th><th scope=\"col\" class=\"n\">peak</th><th \
             scope=\"col\">id</th></tr></thead><tbody>",
            if all == 1 { "" } else { "es" },
            name_of(report, line)
        ));
        for one in open.iter().take(shown) {
            let cells =
                [or_unknown(one.accrued_ms), or_unknown(one.alone_ms), or_unknown(one.shared_ms)];
            let pid = one.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            row(
                page,
                report,
                one.program.as_deref(),
                (&pid, &one.gpu_uuid),
                one.start_time_us.map(WallUs::ms),
                cells,
                ("-", "open"),
            );
        }
        for one in settled.iter().take(shown.saturating_sub(open.len())) {
            let cells = [in_period(one), or_unknown(one.alone_ms), or_unknown(one.shared_ms)];
            let peak = or_unknown(one.max_memory_bytes);
            row(
                page,
                report,
                one.program.as_deref(),
                (&one.pid.to_string(), &one.gpu_uuid),
                one.start_time_us.map(WallUs::ms),
                cells,
                (&peak, &one.id),
            );
        }
        page.raw("</tbody></table>\n");
        let more = all.saturating_sub(shown);
        *left = left.saturating_sub(all.min(shown));
        if more > 0 {
            page.line(format_args!(
                "<p class=\"note\">and {more} more: gpu-ledger export --format csv has all.</p>"
            ));
        }
        page.raw("</details></td></tr>\n");
    }
}

fn in_period(one: &Settled) -> String {
    match (one.in_period_ms, one.dispute) {
        (Some(ms), _) => ms.to_string(),
        (None, Some(why)) => format!("disputed: {why}"),
        (None, None) => "unknown".to_owned(),
    }
}

fn row(
    page: &mut Markup,
    report: &Report,
    program: Option<&str>,
    (pid, gpu): (&str, &GpuUuid),
    start_ms: Option<u64>,
    [held, alone, shared]: [String; 3],
    (peak, id): (&str, &str),
) {
    let index = report.gpus.iter().find(|one| one.gpu_uuid == *gpu).and_then(|one| one.gpu_index);
    let start = start_ms.map(|ms| show(moment_of(ms), &report.period.time_zone));
    let start = start
        .map_or_else(|| "unknown".to_owned(), |start| start.get(..19).unwrap_or(&start).to_owned());
    let program =
        program.map_or_else(|| "unknown".to_owned(), |program| safe(&report.shown.name(program)));
    page.line(format_args!(
        "<tr><td class=\"name\">{program}</td><td class=\"n\">{pid}</td><td>{}</td><td>{start}</td><td class=\"n\">{held}</td><td \
         class=\"n\">{alone}</td><td class=\"n\">{shared}</td><td class=\"n\">{peak}</td><td class=\"id\">{}</td></tr>",
        or_unknown(index),
        safe(id)
    ));
}

/// Milliseconds for people, or the word.
pub(super) fn told(ms: Option<Ms>) -> String {
    or_unknown(ms)
}
