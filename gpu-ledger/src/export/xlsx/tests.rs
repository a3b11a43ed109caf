//! The workbook, read again as whoever opens it reads it: cells of its XML, and its formulas computed anew.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::float_arithmetic,
    reason = "a spreadsheet's numbers are floats"
)]

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};

use super::bill;
use crate::bill::By;
use crate::bill::report::Report;
use crate::export::made::{HOSTILE, billed};

/// What stands in a cell.
#[derive(Clone, PartialEq, Debug)]
enum Is {
    Text(String),
    Number(String),
    Formula(String, String),
}

/// Cells by sheet and address.
type Cells = BTreeMap<(String, String), Is>;

fn part(bytes: &[u8], name: &str) -> String {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut text = String::new();
    archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The text between two others.
fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(from)?;
    Some(rest.split_once(to)?.0)
}

fn cells(bytes: &[u8]) -> Cells {
    let strings = part(bytes, "xl/sharedStrings.xml");
    let strings: Vec<String> = strings
        .split("<si>")
        .skip(1)
        .map(|one| unescaped(one.split_once("</t>").unwrap().0.split_once('>').unwrap().1))
        .collect();
    let mut cells = Cells::new();
    for (number, sheet) in ["bill", "unattributed", "coverage", "words"].into_iter().enumerate() {
        let xml = part(bytes, &format!("xl/worksheets/sheet{}.xml", number + 1));
        for cell in xml.split("<c ").skip(1) {
            // Nothing stands in it.
            if cell.split_once('>').unwrap().0.ends_with('/') {
                continue;
            }
            let (cell, _) = cell.split_once("</c>").unwrap();
            let at = between(cell, "r=\"", "\"").unwrap().to_owned();
            let value = between(cell, "<v>", "</v>").map(unescaped).unwrap();
            let is = match between(cell, "<f>", "</f>") {
                Some(formula) => Is::Formula(unescaped(formula), value),
                None if cell.contains("t=\"s\"") => {
                    Is::Text(strings[value.parse::<usize>().unwrap()].clone())
                }
                None => Is::Number(value),
            };
            cells.insert((sheet.to_owned(), at), is);
        }
    }
    cells
}

/// The value of a cell as a spreadsheet computes it that trusts no stored result.
fn computed(cells: &Cells, sheet: &str, at: &str) -> f64 {
    match cells.get(&(sheet.to_owned(), at.to_owned())) {
        Some(Is::Number(number)) => number.parse().unwrap(),
        Some(Is::Formula(formula, _)) => evaluated(cells, sheet, formula),
        // A sum takes no text in.
        Some(Is::Text(_)) | None => 0.0,
    }
}

fn addresses(range: &str) -> Vec<String> {
    let split = |at: &str| {
        let digits = at.find(|c: char| c.is_ascii_digit()).unwrap();
        (at[..digits].to_owned(), at[digits..].parse::<u32>().unwrap())
    };
    let (from, to) = range.split_once(':').unwrap();
    let ((column, first), (last_column, last)) = (split(from), split(to));
    let letter = |name: &str| u32::from(name.as_bytes()[0]) - u32::from(b'A');
    assert!(column.len() == 1 && last_column.len() == 1, "{range}");
    let columns = letter(&column)..=letter(&last_column);
    let name = |column: u32| char::from(u8::try_from(column).unwrap() + b'A');
    columns.flat_map(|one| (first..=last).map(move |row| format!("{}{row}", name(one)))).collect()
}

fn evaluated(cells: &Cells, sheet: &str, formula: &str) -> f64 {
    let sum = |range: &str, is_meant: &dyn Fn(usize) -> bool| {
        let at = addresses(range);
        at.iter()
            .enumerate()
            .filter(|(at, _)| is_meant(*at))
            .map(|(_, at)| computed(cells, sheet, at))
            .sum()
    };
    let is_word = |range: &str, at: usize, word: &str| {
        let cell = cells.get(&(sheet.to_owned(), addresses(range)[at].clone()));
        cell == Some(&Is::Text(word.trim_matches('"').to_owned()))
    };
    let arguments = |name: &str| {
        let inner = formula.strip_prefix(name)?.strip_suffix(')')?;
        Some(inner.split(',').collect::<Vec<_>>())
    };
    if let Some(arguments) = arguments("SUM(") {
        return sum(arguments[0], &|_| true);
    }
    if let Some(of) = arguments("SUMIF(") {
        return sum(of[2], &|at| is_word(of[0], at, of[1]));
    }
    if let Some(of) = arguments("SUMIFS(") {
        return sum(of[0], &|at| is_word(of[1], at, of[2]) && is_word(of[3], at, of[4]));
    }
    match formula.split_once('!') {
        Some((other, at)) => computed(cells, other, at),
        None => computed(cells, sheet, formula),
    }
}

/// What a check computes to.
fn agrees(cells: &Cells, sheet: &str, formula: &str) -> bool {
    let inner = formula.strip_prefix("IF(").unwrap().strip_suffix(",\"good\",\"DOES NOT AGREE\")");
    let inner = inner.unwrap();
    if let Some(difference) = between(inner, "ROUND(", ",4)=0") {
        let (one, other) = difference.split_once('-').unwrap();
        return (computed(cells, sheet, one) - computed(cells, sheet, other)).abs() < 0.000_05;
    }
    let all = inner.strip_prefix("AND(").map_or(inner, |all| all.strip_suffix(')').unwrap());
    all.split(',').all(|equal| {
        let (one, other) = equal.split_once('=').unwrap();
        (computed(cells, sheet, one) - computed(cells, sheet, other)).abs() < f64::EPSILON
    })
}

fn all_reports() -> Vec<Report> {
    vec![
        billed(By::Account, &[], false),
        billed(By::Account, &[], true),
        billed(By::User, &[], true),
        billed(By::Process, &[], false),
        // What is left out stands in the control totals as well.
        billed(By::Account, &["ollama"], true),
        // No line at all.
        crate::export::made::of(&crate::bill::made::Journal::began(0, 1), By::Account, &[], true),
    ]
}

#[test]
fn every_total_is_a_formula_that_computes_to_what_is_stored_and_every_check_is_good() {
    for report in all_reports() {
        let cells = cells(&bill(&report).unwrap());
        let (mut sums, mut checks) = (0, 0);
        for ((sheet, at), cell) in &cells {
            let Is::Formula(formula, stored) = cell else { continue };
            if formula.starts_with("IF(") {
                checks += 1;
                assert_eq!(stored, "good", "{sheet}!{at}");
                assert!(agrees(&cells, sheet, formula), "{sheet}!{at} {formula}");
            } else {
                sums += 1;
                let (computed, stored) = (evaluated(&cells, sheet, formula), stored.parse::<f64>());
                let difference = (computed - stored.clone().unwrap()).abs();
                assert!(difference < 0.000_05, "{sheet}!{at} {formula}: {computed} {stored:?}");
            }
        }
        assert!(sums > 0 && checks > 1, "{sums} {checks}");
        let total = Is::Number(report.span_ms_total.to_string());
        let is_total = |cell: &Is| *cell == Is::Text("the bill's own total".to_owned());
        let ((_, at), _) = cells.iter().find(|(_, cell)| is_total(cell)).unwrap();
        assert_eq!(cells[&("bill".to_owned(), at.replace('A', "C"))], total);
    }
}

#[test]
fn a_check_would_find_a_line_that_was_changed() {
    let mut cells = cells(&bill(&billed(By::Account, &[], false)).unwrap());
    let is_ollama = |cell: &Is| *cell == Is::Text("ollama".to_owned());
    let at = cells.iter().find(|(_, cell)| is_ollama(cell)).unwrap().0.1.clone();
    let control = cells.iter().find_map(|((sheet, at), cell)| match cell {
        Is::Formula(formula, _) if formula.starts_with("IF(AND(") => {
            Some((sheet.clone(), at.clone(), formula.clone()))
        }
        _ => None,
    });
    let (sheet, _, formula) = control.unwrap();
    assert!(agrees(&cells, &sheet, &formula));
    let row = &at[1..];
    let span = cells.get_mut(&("bill".to_owned(), format!("I{row}"))).unwrap();
    assert_eq!(*span, Is::Number("3600001".to_owned()));
    *span = Is::Number("3600002".to_owned());
    assert!(!agrees(&cells, &sheet, &formula));
}

#[test]
fn a_hostile_name_is_text_and_moments_and_ids_are_too() {
    let report = billed(By::Account, &[], false);
    let bytes = bill(&report).unwrap();
    let cells = cells(&bytes);
    let has = |text: &str| cells.values().any(|cell| *cell == Is::Text(text.to_owned()));
    for name in HOSTILE {
        let shown = crate::escape::printable(name.as_bytes()).to_string();
        // What looks like a code of the format is written so that it is read as it stands.
        let shown = shown.replace("_x003D_", "_x005F_x003D_");
        assert!(has(&shown), "{shown}");
    }
    let formulas = cells.values().filter_map(|cell| match cell {
        Is::Formula(formula, _) => Some(formula),
        _ => None,
    });
    for formula in formulas {
        assert!(!formula.contains("cmd") && !formula.contains("1+1"), "{formula}");
    }
    let strings = part(&bytes, "xl/sharedStrings.xml");
    assert!(!strings.contains("<script>") && !strings.contains('\u{1b}'), "{strings}");
    assert!(has("2026-11-30T00:00:00.000000Z") || has("2026-11-30T00:00:00Z"), "{cells:?}");
    let head = report.journal_head.as_ref().unwrap();
    assert!(has("1795996800000000") && has(&head.seq.to_string()));
    assert!(has(&head.hash) && has(&report.bill_id));
}

#[test]
fn what_is_unknown_is_a_word_and_never_a_zero() {
    let cells = cells(&bill(&billed(By::Account, &[], true)).unwrap());
    let unknown = cells.values().filter(|cell| **cell == Is::Text("UNKNOWN".to_owned())).count();
    // A gap of unknown size, the version of the driver, amounts without a price.
    assert!(unknown > 5, "{unknown}");
    // Of memory the sum would be 0, as none of its lines has a price: it is no amount.
    let memory =
        cells.iter().find(|(_, cell)| **cell == Is::Text("sums of these lines".to_owned()));
    let from: u32 = memory.unwrap().0.1.trim_start_matches('A').parse().unwrap();
    let sums = (from..).map_while(|row| {
        let cell = |column: &str| cells.get(&("bill".to_owned(), format!("{column}{}", row + 1)));
        cell("G").map(|unknown| (cell("B").cloned(), cell("D").cloned(), unknown.clone()))
    });
    let unpriced: Vec<_> =
        sums.filter(|(_, sum, _)| *sum == Some(Is::Text("UNKNOWN".to_owned()))).collect();
    assert!(!unpriced.is_empty());
    assert!(
        unpriced.iter().all(|(_, _, lines)| *lines != Is::Number("0".to_owned())),
        "{unpriced:?}"
    );
}

#[test]
fn the_same_report_gives_the_same_bytes_whenever_it_is_written() {
    for report in all_reports() {
        let first = bill(&report).unwrap();
        // The moment that a workbook says it was made at has seconds.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        assert!(first == bill(&report).unwrap(), "{}", report.bill_id);
        let core = part(&first, "docProps/core.xml");
        let as_of = report.as_of.as_deref().unwrap();
        assert!(core.contains(as_of.get(..19).unwrap()), "{core} {as_of}");
    }
}

#[test]
fn more_lines_than_a_sheet_has_rows_is_said() {
    let mut report = billed(By::Account, &[], false);
    let line = report.accounts[0].clone();
    report.accounts = vec![line; super::LINES_MAX + 1];
    let error = bill(&report).unwrap_err().to_string();
    assert!(error.contains("200001 accounts") && error.contains("--format csv"), "{error}");
}
