//! The test of BUG-REPORTS.md: every test that it names is where it says.

use std::collections::BTreeMap;
use std::path::Path;

const LIST: &str = "BUG-REPORTS.md";

/// Columns of a row: what was reported, what bit, what is here against it.
const COLUMNS: usize = 3;

/// What stands in `code` and names a test, as (file, function).
fn named(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once(".rs::").map(|_| code))
        .filter_map(|code| code.rsplit_once("::"))
}

/// Whether that function is in the source, marked as a test: its own line, or within `proptest!`, stands above it.
fn is_test(source: &str, function: &str) -> bool {
    let head = format!("fn {function}(");
    let Some(at) = source.find(&head) else { return false };
    let before = source.get(..at).unwrap_or_default();
    // From the end of what stands before it on.
    let own = before.rsplit_once("\n}").map_or(before, |(_, own)| own);
    let own = own.rsplit_once("\n    }").map_or(own, |(_, own)| own);
    own.contains("#[test]")
}

#[test]
fn every_test_that_is_named_exists_and_every_row_names_one_or_says_why_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let list = std::fs::read_to_string(root.join(LIST)).unwrap();
    let mut sources = BTreeMap::new();
    let mut rows = 0;
    for line in list.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), COLUMNS, "{line}");
        if cells.first() == Some(&"report") {
            continue;
        }
        rows += 1;
        let says_why = ["Cannot ", "Partly", "cargo xtask"].iter().any(|word| line.contains(word));
        assert!(
            says_why || named(line).next().is_some(),
            "neither a test nor why there is none: {line}"
        );
        for (file, function) in named(line) {
            let source = sources
                .entry(file.to_owned())
                .or_insert_with(|| std::fs::read_to_string(root.join(file)).unwrap_or_default());
            assert!(is_test(source, function), "{file} has no test {function}, which {LIST} names");
        }
    }
    assert!(rows > 0, "{LIST} has no rows");
}

#[test]
fn a_function_that_is_no_test_is_told_from_one() {
    let source = "#[test]\nfn a_test() {\n}\n\nfn a_helper() {\n}\n";
    assert!(is_test(source, "a_test"));
    assert!(!is_test(source, "a_helper") && !is_test(source, "gone") && !is_test(source, "a_tes"));
    let found: Vec<_> = named("| x | y | `a/b.rs::c` and `cargo xtask` and `d.rs::e` |").collect();
    assert_eq!(found, [("a/b.rs", "c"), ("d.rs", "e")]);
}
