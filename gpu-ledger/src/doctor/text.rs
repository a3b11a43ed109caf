//! The report for people, 80 columns wide.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::{Area, Check, DoctorReport, Status};

/// Columns of a page.
const WIDTH: usize = 80;
/// Columns before what was found: status and name.
const INDENT: usize = 28;

/// The page. What is as it should be stands there too: somebody looked.
#[must_use]
pub fn render(report: &DoctorReport) -> String {
    let mut page = String::new();
    let counts = &report.counts;
    let _ = writeln!(
        page,
        "gpu-ledger doctor: {} ok, {} warn, {} missing, {} unknown",
        counts.ok, counts.warn, counts.missing, counts.unknown
    );
    section(&mut page, "host", &of(report, Area::Host));
    section(&mut page, "driver", &of(report, Area::Driver));
    for gpu in &report.gpus {
        let name = gpu.name.as_deref().unwrap_or("(no name)");
        let checks: Vec<&Check> = of(report, Area::Gpu)
            .into_iter()
            .filter(|c| c.gpu.as_ref() == Some(&gpu.uuid))
            .collect();
        section(&mut page, &format!("GPU {} {name} {}", gpu.index, gpu.uuid), &checks);
    }
    section(&mut page, &format!("state {}", report.state_dir), &of(report, Area::State));
    let _ = writeln!(page, "\nstays invisible, whatever is done");
    for line in report.invisible {
        wrapped(&mut page, "  - ", 4, line);
    }
    page
}

fn of(report: &DoctorReport, area: Area) -> Vec<&Check> {
    report.checks.iter().filter(|check| check.area == area).collect()
}

fn section(page: &mut String, title: &str, checks: &[&Check]) {
    if checks.is_empty() {
        return;
    }
    page.push('\n');
    wrapped(page, "", 2, title);
    for check in checks {
        let head = format!("  {:<8} {:<16} ", check.status, check.check);
        wrapped(page, &head, INDENT, &check.cause);
        if let Some(remedy) = check.remedy.as_ref().filter(|_| check.status != Status::Ok) {
            let head = format!("{:INDENT$}-> ", "");
            wrapped(page, &head, INDENT.saturating_add(3), remedy);
        }
    }
}

/// Text behind a head, its further lines indented, broken between words; a word that does not fit
/// on a line is broken where the line ends.
fn wrapped(page: &mut String, head: &str, indent: usize, text: &str) {
    let mut line = head.to_owned();
    let mut is_bare = true;
    for word in text.split_whitespace() {
        let gap = usize::from(!is_bare);
        if !is_bare && line.width().saturating_add(gap).saturating_add(word.width()) > WIDTH {
            let _ = writeln!(page, "{}", line.trim_end());
            line = " ".repeat(indent);
            is_bare = true;
        }
        if !is_bare {
            line.push(' ');
        }
        for character in word.chars() {
            let mut piece = [0; 4];
            let piece = character.encode_utf8(&mut piece);
            if line.width().saturating_add(piece.width()) > WIDTH {
                let _ = writeln!(page, "{line}");
                line = " ".repeat(indent);
            }
            line.push(character);
        }
        is_bare = false;
    }
    let _ = writeln!(page, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_wider_than_a_page_and_no_character_is_lost() {
        let mut page = String::new();
        let path = "/a/very/long/path".repeat(20);
        wrapped(&mut page, "  ok       state-dir        ", INDENT, &format!("{path} is 長い"));
        assert!(page.lines().all(|line| line.width() <= WIDTH), "{page}");
        let text: String = page.split_whitespace().collect();
        assert_eq!(text, format!("okstate-dir{path}is長い"));
    }
}
