//! One sheet as it grows, row by row. Nothing becomes a formula but what is written as one.

use rust_xlsxwriter::{Format, FormatAlign, FormatBorder, Formula, Worksheet, XlsxError};

use super::XlsxBillError;
use crate::escape::printable_bounded;
use crate::prices::Amount;

/// What a spreadsheet's numbers hold exactly: they are of 53 bits.
const EXACT_MAX: u128 = 1 << 53;
/// Digits that a spreadsheet shows of a number: what has more is text.
const DIGITS_MAX: usize = 15;
/// Characters of a cell that is a stranger's; a spreadsheet takes 32,767 at most.
const TEXT_CHARS_MAX: usize = 16_000;

/// What stands in a cell where nobody knows a figure.
const UNKNOWN: &str = "UNKNOWN";

/// A cell.
pub(super) enum Cell<'a> {
    /// Nothing applies.
    Empty,
    /// A stranger's name: text, whatever it looks like.
    Name(&'a str),
    /// A word of ours, an id, a moment: text.
    Text(String),
    /// A figure, where it is known.
    Number(Option<u128>),
    /// An amount, where it is known.
    Amount(Option<Amount>),
    /// What a formula gives, with the figure that it gives. Where that is more than a spreadsheet's numbers hold, the
    /// figure stands there alone, as text.
    Sum(String, u128),
    /// The same of amounts; UNKNOWN where none is known.
    AmountSum(String, Option<Amount>),
    /// The same of words.
    Verdict(String, &'static str),
}

impl Cell<'_> {
    pub(super) fn number(value: Option<impl Into<u128>>) -> Self {
        Self::Number(value.map(Into::into))
    }
}

pub(super) struct Formats {
    plain: Format,
    head: Format,
    title: Format,
    number: Format,
    amount: Format,
    sum: Format,
    amount_sum: Format,
    wrapped: Format,
}

impl Formats {
    pub(super) fn new() -> Self {
        let text = || Format::new().set_num_format("@");
        let (number, amount) = ("#,##0", "#,##0.0000");
        let sum = || Format::new().set_bold().set_border_top(FormatBorder::Thin);
        Self {
            plain: text(),
            head: text().set_bold().set_border_bottom(FormatBorder::Thin).set_text_wrap(),
            title: Format::new().set_bold().set_font_size(14),
            number: Format::new().set_num_format(number),
            amount: Format::new().set_num_format(amount),
            sum: sum().set_num_format(number),
            amount_sum: sum().set_num_format(amount),
            wrapped: text().set_text_wrap().set_align(FormatAlign::Top),
        }
    }
}

/// Where a block of cells stands, for a formula: rows and columns from 0.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Rows {
    /// `C4:C9` of this column, or `None` of no row.
    pub(super) fn range(self, column: u16) -> Option<String> {
        let last = self.first.checked_add(self.count)?.checked_sub(1).filter(|_| self.count > 0)?;
        Some(format!("{}:{}", place(self.first, column), place(last, column)))
    }
}

/// `C4`.
pub(super) fn place(row: u32, column: u16) -> String {
    rust_xlsxwriter::utility::row_col_to_cell(row, column)
}

pub(super) struct Sheet<'a> {
    sheet: &'a mut Worksheet,
    formats: &'a Formats,
    row: u32,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(sheet: &'a mut Worksheet, formats: &'a Formats) -> Self {
        Self { sheet, formats, row: 0 }
    }

    /// The row that is written next.
    pub(super) const fn next(&self) -> u32 {
        self.row
    }

    pub(super) fn skip(&mut self, rows: u32) {
        self.row = self.row.saturating_add(rows);
    }

    pub(super) fn title(&mut self, text: &str) -> Result<(), XlsxError> {
        self.sheet.write_string_with_format(self.row, 0, text, &self.formats.title)?;
        self.skip(1);
        Ok(())
    }

    pub(super) fn head(&mut self, columns: &[&str]) -> Result<(), XlsxError> {
        for (column, name) in (0_u16..).zip(columns) {
            self.sheet.write_string_with_format(self.row, column, *name, &self.formats.head)?;
        }
        self.skip(1);
        Ok(())
    }

    /// A line over all columns, that may be long.
    pub(super) fn note(&mut self, text: &str) -> Result<(), XlsxError> {
        self.sheet.write_string(self.row, 0, text)?;
        self.skip(1);
        Ok(())
    }

    /// A word with what it means.
    pub(super) fn wrapped(&mut self, cells: &[&str]) -> Result<(), XlsxError> {
        for (column, text) in (0_u16..).zip(cells) {
            self.sheet.write_string_with_format(self.row, column, *text, &self.formats.wrapped)?;
        }
        self.skip(1);
        Ok(())
    }

    pub(super) fn cells(&mut self, cells: Vec<Cell<'_>>) -> Result<(), XlsxBillError> {
        let row = self.row;
        for (column, cell) in (0_u16..).zip(cells) {
            self.put(row, column, cell)?;
        }
        self.skip(1);
        Ok(())
    }

    /// One cell anywhere.
    pub(super) fn put(&mut self, row: u32, column: u16, cell: Cell<'_>) -> Result<(), XlsxError> {
        let Formats { plain, number, amount, sum, amount_sum, .. } = self.formats;
        let sheet = &mut *self.sheet;
        let exact = |digits: &str| digits.parse::<f64>().ok();
        match cell {
            Cell::Empty => {}
            Cell::Name(name) => {
                let name = printable_bounded(name.as_bytes(), TEXT_CHARS_MAX);
                sheet.write_string_with_format(row, column, name, plain)?;
            }
            Cell::Text(text) => {
                sheet.write_string_with_format(row, column, text, plain)?;
            }
            Cell::Number(None) | Cell::Amount(None) | Cell::AmountSum(_, None) => {
                sheet.write_string_with_format(row, column, UNKNOWN, plain)?;
            }
            Cell::Number(Some(value)) => {
                let digits = value.to_string();
                match exact(&digits).filter(|_| value <= EXACT_MAX) {
                    Some(value) => sheet.write_number_with_format(row, column, value, number)?,
                    None => sheet.write_string_with_format(row, column, digits, plain)?,
                };
            }
            Cell::Amount(Some(value)) => {
                let digits = value.to_string();
                match exact(&digits).filter(|_| is_short(&digits)) {
                    Some(value) => sheet.write_number_with_format(row, column, value, amount)?,
                    None => sheet.write_string_with_format(row, column, digits, plain)?,
                };
            }
            Cell::Sum(formula, value) if value <= EXACT_MAX => {
                let formula = Formula::new(formula).set_result(value.to_string());
                sheet.write_formula_with_format(row, column, formula, sum)?;
            }
            Cell::Sum(_, value) => {
                sheet.write_string_with_format(row, column, value.to_string(), sum)?;
            }
            Cell::AmountSum(formula, Some(value)) => {
                let digits = value.to_string();
                if is_short(&digits) {
                    let formula = Formula::new(formula).set_result(digits);
                    sheet.write_formula_with_format(row, column, formula, amount_sum)?;
                } else {
                    sheet.write_string_with_format(row, column, digits, plain)?;
                }
            }
            Cell::Verdict(formula, result) => {
                let formula = Formula::new(formula).set_result(result);
                sheet.write_formula_with_format(row, column, formula, sum)?;
            }
        }
        Ok(())
    }

    /// How wide columns are, in characters.
    pub(super) fn widths(&mut self, widths: &[u16]) -> Result<(), XlsxError> {
        for (column, width) in (0_u16..).zip(widths) {
            self.sheet.set_column_width(column, *width)?;
        }
        Ok(())
    }

    /// For whoever prints it.
    pub(super) fn print(&mut self, footer: &str) {
        self.sheet.set_landscape().set_paper_size(9).set_print_fit_to_pages(1, 0);
        // An ampersand begins a code there.
        self.sheet.set_footer(format!("&L{}&R&P / &N", footer.replace('&', "&&")));
    }
}

/// Whether a spreadsheet shows every digit of it.
fn is_short(digits: &str) -> bool {
    digits.bytes().filter(u8::is_ascii_digit).count() <= DIGITS_MAX
}
