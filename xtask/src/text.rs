//! Numbers and tables as text. Pure, but for the two doors to stdout and stderr.

use std::io::Write as _;

use crate::number::grouped_wide;

/// A line for the reader. Nobody may be listening; that stops no measurement.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// A line about what goes on or went wrong.
pub(crate) fn complain(line: &str) {
    drop(writeln!(std::io::stderr(), "bench: {line}"));
}

/// `value / unit` with `places` decimals, rounded half up. `unit` is not 0 and at least
/// 10^`places`.
pub(crate) fn decimal(value: u64, unit: u64, places: u32) -> String {
    let scale = 10_u128.pow(places);
    let unit = u128::from(unit);
    let scaled = (u128::from(value) * scale + unit / 2) / unit;
    if places == 0 {
        return grouped_wide(scaled);
    }
    let width = usize::try_from(places).unwrap_or(usize::MAX);
    format!("{}.{:0width$}", grouped_wide(scaled / scale), scaled % scale)
}

/// Rows in columns: the first to the left, the others to the right, the last to the left again,
/// since it holds remarks.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
            if column == 0 || column + 1 == columns {
                line.push_str(cell);
                line.push_str(&blanks);
            } else {
                line.push_str(&blanks);
                line.push_str(cell);
            }
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_half_up_and_grouped() {
        assert_eq!(decimal(1_019_996, 1_000_000, 4), "1.0200");
        assert_eq!(decimal(5, 1_000, 3), "0.005");
        assert_eq!(decimal(12_345_678_900_000, 1_000_000, 1), "12,345,678.9");
        assert_eq!(decimal(1_500, 1_000, 0), "2");
    }

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = table(&[row(["tracer", "CPU", "remark"]), row(["x", "1,000", ""])]);
        assert_eq!(text, "tracer    CPU  remark\nx       1,000\n");
    }
}
