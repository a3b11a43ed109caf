//! Made reports for the tests of exports.

use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, program};
use crate::bill::period::Period;
use crate::bill::report::{Ask, Head, Outside, Report, Tree, report};
use crate::bill::{By, Ledger, SharePolicy};
use crate::journal::Digest;
use crate::journal::entry::OpenKind;
use crate::prices::parse;
use crate::unit::Span;
use crate::unknown::{DisputeReason, GapCause};

pub(crate) const HOUR: u64 = 3_600_000;

/// Names that would do something if they were anything but text.
pub(crate) const HOSTILE: [&str; 6] = [
    "=cmd|'/C calc'!A0",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\"onmouseover=\"alert(1)\u{202e}\u{1b}[2J",
    "]]></style><svg onload=alert(1)>&amp;",
    "@SUM(1+1)*{{7*7}}${7*7}",
    "_x003D_1+1",
];

/// Six hours of two GPUs on which everything occurred that a bill can have, with hostile names.
pub(crate) fn journal() -> Journal {
    let mut journal = Journal::began(0, 2);
    journal.open(0, OpenKind::NoDriverRow, 1, 1_308, 0, program("voice-daemon"));
    journal.open(HOUR, OpenKind::Row, 0, 2_488, HOUR, program("llama-server"));
    for (at, name) in (0_u64..).zip(HOSTILE) {
        let pid = u32::try_from(3_000_u64.saturating_add(at)).unwrap_or(0);
        let start = at.saturating_mul(HOUR / 2).saturating_add(HOUR);
        let row = Row { gpu: at % 2, ..Row::of(name, pid, start, HOUR / 3) };
        journal.settle(start.saturating_add(HOUR / 2), row);
    }
    journal.settle(4 * HOUR, Row::of("ollama", 4_000, 2 * HOUR, HOUR + 1));
    journal.settle(4 * HOUR, Row { account: NAMELESS, ..Row::of("", 4_001, 3 * HOUR, HOUR / 4) });
    let stepped =
        Row { dispute: Some(DisputeReason::ClockStep), ..Row::of("ollama", 4_002, HOUR, 9) };
    journal.settle(4 * HOUR, stepped);
    journal.gap(GapCause::RowsPossiblyEvicted, Some(1), 4 * HOUR, 4 * HOUR + HOUR / 4, Some(2));
    journal.gap(GapCause::EventLost, None, 3 * HOUR, 3 * HOUR + 1_000, None);
    journal.mark(6 * HOUR, 2);
    journal
}

/// The bill of those hours.
pub(crate) fn billed(by: By, accounts: &[&str], priced: bool) -> Report {
    of(&journal(), by, accounts, priced)
}

/// The bill of six hours of a journal.
pub(crate) fn of(journal: &Journal, by: By, accounts: &[&str], priced: bool) -> Report {
    let mut ledger = Ledger::for_bill_by(by);
    journal.entries.iter().for_each(|entry| ledger.take(entry).unwrap());
    ledger.finish(&journal.end).unwrap();
    let period = Period {
        span: Span::new(DAY_MS, DAY_MS + 6 * HOUR).unwrap(),
        begins_with_journal: false,
        is_open_ended: false,
        beyond_now: None,
        zone: jiff::tz::TimeZone::UTC,
    };
    let text = "currency = \"EUR\"\n[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"held\"\nper_hour = \"1.25\"\n";
    let prices = priced.then(|| parse(text, &jiff::tz::TimeZone::UTC).unwrap());
    let accounts = accounts.iter().map(|name| (*name).to_owned()).collect();
    let ask = Ask { period, by, share: SharePolicy::Equal, gpus: Vec::new(), accounts, prices };
    let tree = Tree::Root(Digest([7; 32]));
    let head = Head { seq: journal.end.head.seq, hash: journal.end.head.hash, tree };
    let driver = Some("simulated".to_owned());
    report(&ledger, &ask, head, &Outside { driver, ..Outside::default() }).unwrap()
}
