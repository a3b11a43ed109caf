//! Names of any bytes: stored once escaped, printed as they stand, and typed as they are printed.

use std::sync::Arc;

use proptest::prelude::*;
use unicode_width::UnicodeWidthChar as _;

use super::{ask, head, ledger, span};
use crate::attribution::rules::RuleSet;
use crate::attribution::{Attributor, Nameless, Process};
use crate::bill::made::{Journal, Row};
use crate::bill::report::{Outside, Report, report};
use crate::bill::{BillError, By, SharePolicy, Totals, journal_line, table, text};
use crate::identity::Program;
use crate::settlement::Account;
use crate::unit::{Ms, WallUs};

fn bill(journal: &Journal, words: &[&str]) -> Result<Report, BillError> {
    let mut ask = ask(span(0, 10_000), By::Account, SharePolicy::None);
    ask.accounts = words.iter().map(|word| (*word).to_owned()).collect();
    report(&ledger(journal), &ask, head(journal), &Outside::default())
}

/// The account of a program, by a rule that takes its name or by none.
fn account(program: &[u8], is_ruled: bool) -> Account {
    let rules: &[u8] = b"[[rule]]\naccount = 'job ${name}'\nprogram = { regex = '(?P<name>.+)' }\n";
    let rules = Arc::new(RuleSet::parse(if is_ruled { rules } else { b"" }).unwrap());
    let attributor = Attributor::new(Arc::new(Nameless)).with_rules(&rules);
    let process = Process { program: Some(Program::named(program)), ..Process::default() };
    process.see(|subject| attributor.attribute(subject).account)
}

/// What stands in the column of names, or above it.
fn cell(line: &str, next: Option<&&str>) -> String {
    let is_above = next.is_some_and(|next| next.starts_with(&" ".repeat(2 + text::NAME_WIDTH)));
    if is_above {
        return line.get(2..).unwrap().to_owned();
    }
    let mut width = 0;
    let chars = line.chars().skip(2).take_while(|c| {
        width += c.width().unwrap_or(0);
        width <= text::NAME_WIDTH
    });
    chars.collect::<String>().trim_end().to_owned()
}

#[test]
fn a_capture_of_a_name_is_not_escaped_again_and_one_of_arguments_once() {
    assert_eq!(account(b"a\x1bb\\c", true).to_string(), r"job a\x1bb\\c");
    let rules = b"[[rule]]\naccount = '${m} of ${u}'\nargv = { prefix = '--m=' }\n\
        command_line = { regex = '.*--m=(?P<m>\\S+).*' }\nuser_unit = { regex = '(?P<u>.+)\\.service' }\n";
    let rules = Arc::new(RuleSet::parse(rules).unwrap());
    let place = crate::place::Place {
        user_unit: Some(Arc::from(r"my\x2dmodel.service")),
        ..crate::place::Place::default()
    };
    let argv = Some(vec![b"x".to_vec(), b"--m=a\x1b\\b\xff".to_vec()]);
    let process = Process { argv, place, ..Process::default() };
    let attributor = Attributor::new(Arc::new(Nameless)).with_rules(&rules);
    let found = process.see(|subject| attributor.attribute(subject).account);
    assert_eq!(found.to_string(), r"a\x1b\\b\xff of my\x2dmodel");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_printed_of_a_line_means_that_line(
        names in prop::collection::btree_set(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 1..24),
                "[ -~\u{e9}\u{202e}\\\\=\"']{1,24}".prop_map(String::into_bytes),
            ],
            1..4,
        ),
        is_ruled: bool,
    ) {
        // Blanks alone are nothing to be seen.
        prop_assume!(names.iter().all(|name| !name.trim_ascii().is_empty()));
        let blanks = " ".repeat(2 + text::NAME_WIDTH);
        let mut journal = Journal::began(0, 1);
        for (pid, name) in (1..).zip(&names) {
            let account = account(name, is_ruled);
            journal.settle(9_000, Row { account, ..Row::of("", pid, 1_000, 1_000 * u64::from(pid)) });
        }
        journal.mark(10_000, 1);
        let whole = bill(&journal, &[]).unwrap();
        let page = text::render(&whole);
        let (_, accounts) = page.split_once("of GPU\n").unwrap();
        let lines: Vec<&str> = accounts.lines().filter(|line| !line.starts_with("    of ")).collect();
        let named = (1..).zip(&lines).filter(|(_, line)| !line.starts_with(&blanks));
        let cells = named.map(|(next, line)| cell(line, lines.get(next)));
        let rows = table::csv(&whole, false).unwrap();
        let rows: Vec<csv::StringRecord> =
            csv::Reader::from_reader(rows.as_bytes()).records().map(Result::unwrap).collect();
        for ((line, cell), row) in whole.accounts.iter().zip(cells).zip(&rows) {
            let mut totals = Totals::default();
            totals.add((line.account.clone(), line.named_by), Ms(1));
            let logged = journal_line(WallUs(0), &totals);
            let logged = logged.split(' ').nth(2).unwrap();
            for word in [&*line.account, &cell, row.get(0).unwrap(), logged] {
                match bill(&journal, &[word]) {
                    Ok(found) => {
                        let found: Vec<_> = found.accounts.iter().map(|line| line.line).collect();
                        prop_assert_eq!(found, vec![line.line], "{:?} of {:?}", word, line.account);
                    }
                    // Blanks at the ends, and what is cut, are not always to be told.
                    Err(BillError::SeveralLines { .. }) => {
                        prop_assert!(names.len() > 1 && word != line.account, "{:?}", word);
                    }
                    Err(error) => prop_assert!(false, "{error}"),
                }
            }
        }
    }
}
