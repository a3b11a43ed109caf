//! What a filter leaves out: counted under its kind, and never said not to have been.

use std::collections::BTreeMap;

use super::{ask, head, ledger, span};
use crate::bill::made::{Journal, NAMELESS, Row, program};
use crate::bill::report::{Outside, Report, report};
use crate::bill::{By, SharePolicy, text};
use crate::journal::entry::OpenKind;
use crate::unit::Ms;

/// Two users, each with a settlement; what holds without a settlement nobody knows the user of.
fn journal() -> Journal {
    let mut journal = Journal::began(0, 1);
    journal.settle(2_000, Row::of("whisper", 1, 500, 900));
    journal.settle(3_000, Row { uid: Some(1_002), ..Row::of("ollama", 2, 1_000, 2_000) });
    journal.settle(3_500, Row { account: NAMELESS, ..Row::of("", 3, 3_200, 300) });
    journal.open(5_000, OpenKind::Row, 0, 4, 4_000, program("train-llm"));
    journal.open(6_000, OpenKind::NoDriverRow, 0, 5, 0, program("voice"));
    journal.mark(10_000, 1);
    journal
}

fn filtered(by: By, names: &[&str]) -> Report {
    let journal = journal();
    let mut ask = ask(span(0, 10_000), by, SharePolicy::None);
    ask.accounts = names.iter().map(|name| (*name).to_owned()).collect();
    let users = BTreeMap::from([(1_000, "alice".to_owned())]);
    let outside = Outside { users, ..Outside::default() };
    report(&ledger(&journal), &ask, head(&journal), &outside).unwrap()
}

#[test]
fn everything_left_out_is_counted_under_its_kind() {
    let found = filtered(By::User, &["alice"]);
    let left = found.left_out.as_ref().unwrap();
    assert_eq!((left.accounts, left.settlements, left.span_ms_total), (2, 2, 2_300));
    assert_eq!((left.unattributed, left.disputed), (1, 0));
    assert_eq!((left.open, left.open_ms, left.no_driver_row), (1, Ms(6_000), 1));
    assert!(found.open.is_empty() && found.no_driver_row.is_empty());
    let classes = found.lifetime_classes.iter().filter(|class| class.count > 0);
    let classes: Vec<_> = classes.map(|class| (class.class, class.span_ms_total)).collect();
    assert_eq!(classes, [("below-1s", Ms(900))]);
    // Whose the nameless one is nobody knows: it may be hers.
    assert!(!found.is_known());
}

#[test]
fn a_section_never_says_that_there_was_nothing_where_something_was_left_out() {
    let page = text::render(&filtered(By::User, &["alice"]));
    for said in [
        "\n  2 more left out as asked\nheld is",
        "\nunattributed: 1 left out as asked\n",
        "\nopen: 1 left out as asked\n",
        "\nno driver row: 1 left out as asked\n",
        "\n  of the lines above alone\n",
        "left out as asked: 0 GPUs, 2 lines; on the GPUs shown\n  2 settlements of 2300 ms, 1 of them \
         unattributed and 0 disputed;\n  1 open rows of 6.000 s, 1 holders without a driver row\n",
        "\n1 settlements, 900 ms on these lines; 3 settlements, 3200 ms in all\n",
    ] {
        assert!(page.contains(said), "{said:?}: {page}");
    }
    assert!(!page.contains("nothing that was seen"), "{page}");
    let nobody = text::render(&filtered(By::Account, &["unattributed"]));
    assert!(nobody.contains("\naccounts: 4 left out as asked\n"), "{nobody}");
}

#[test]
fn what_stands_on_a_line_is_kept_with_it_whatever_the_lines_are() {
    let gpu = filtered(By::Gpu, &["GPU 0 NVIDIA H200"]);
    assert_eq!((gpu.accounts.len(), gpu.open.len(), gpu.no_driver_row.len()), (1, 1, 1));
    let unknown = filtered(By::User, &["user unknown"]);
    assert_eq!((unknown.open.len(), unknown.no_driver_row.len()), (1, 1));
    assert_eq!(unknown.left_out.unwrap().open, 0);
    let process = filtered(By::Process, &["ollama"]);
    let pids: Vec<u32> = process.settlements.unwrap().iter().map(|one| one.pid.0).collect();
    assert_eq!(pids, [2]);
}

#[test]
fn a_user_is_known_by_name_by_id_and_by_both_and_a_refusal_lists_these() {
    for name in ["alice", "alice (1000)", "uid 1000", "1000"] {
        let found = filtered(By::User, &[name]);
        assert_eq!(found.accounts.len(), 1, "{name}");
        assert_eq!(found.accounts[0].uid, Some(1_000), "{name}");
    }
    let journal = journal();
    let mut ask = ask(span(0, 10_000), By::User, SharePolicy::None);
    ask.accounts = vec!["train-llm".to_owned()];
    let users = BTreeMap::from([(1_000, "alice".to_owned())]);
    let outside = Outside { users, ..Outside::default() };
    let refused = report(&ledger(&journal), &ask, head(&journal), &outside).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no line of this bill is called train-llm; there are: alice (1000), uid 1002, unattributed, \
         user unknown"
    );
}
