//! `BENCHMARKS.md`: one generated section a benchmark. Pure, but for the last function.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;

const HEAD: &str = "# Benchmarks\n\nGenerated: every section is written by the command it names, \
    and replaced when that command runs again.\nNumbers are of the machine named in the section and \
    say nothing about another.\n";

fn marker(name: &str, edge: &str) -> String {
    format!("<!-- {name}: {edge} -->")
}

/// `page` with the section `name` replaced, or added at its end.
fn with_section(page: &str, name: &str, section: &str) -> String {
    let (begin, end) = (marker(name, "begin"), marker(name, "end"));
    let section = format!("{begin}\n{}\n{end}\n", section.trim_end());
    let old = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after.strip_prefix('\n').unwrap_or(after)))
    });
    match old {
        Some((before, after)) => format!("{before}{section}{after}"),
        None => format!("{}\n\n{section}", page.trim_end()),
    }
}

/// Writes the section into the file at `path`, which need not exist.
pub(super) fn write(path: &Path, name: &str, section: &str) -> anyhow::Result<()> {
    let page = match fs::read_to_string(path) {
        Ok(page) => page,
        Err(error) if error.kind() == ErrorKind::NotFound => HEAD.to_owned(),
        Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
    };
    fs::write(path, with_section(&page, name, section))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_added_once_and_then_replaced_in_its_place() {
        let page = with_section(HEAD, "events", "first");
        let page = with_section(&page, "bill", "other");
        let page = with_section(&page, "events", "second\n");
        assert!(page.starts_with(HEAD));
        assert!(!page.contains("first"));
        let events = page.find("<!-- events: begin -->\nsecond\n<!-- events: end -->\n").unwrap();
        let bill = page.find("<!-- bill: begin -->\nother\n<!-- bill: end -->\n").unwrap();
        assert!(events < bill, "{page}");
        assert_eq!(with_section(&page, "events", "second"), page);
    }
}
