//! Rows into whatever takes bytes: CSV, JSON lines, Parquet.

use std::io::{self, Write};

use super::Row;
use super::columns::ALL;
use crate::rendering::json;

/// In which form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowFormat {
    /// RFC 4180, with a head.
    Csv {
        /// Without guarding a spreadsheet against names that are formulas.
        is_raw: bool,
    },
    /// A JSON object a line.
    Jsonl,
    /// A Parquet table.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Why a row was not written.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// Where they go refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It cannot be JSON, which every row can.
    #[error("a row cannot be written: {0}; this is a bug, please report it")]
    Json(#[from] serde_json::Error),
    /// The table refused.
    #[error("{0}")]
    Table(String),
}

impl From<csv::Error> for RowsError {
    fn from(error: csv::Error) -> Self {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Self::Io(error),
            other => Self::Table(format!("{other:?}")),
        }
    }
}

#[cfg(feature = "parquet")]
impl From<crate::tables::TableError> for RowsError {
    fn from(error: crate::tables::TableError) -> Self {
        Self::Table(error.to_string())
    }
}

/// Rows on their way.
pub struct Writer<W: Write + Send>(To<W>);

enum To<W: Write + Send> {
    Csv(Box<csv::Writer<W>>, bool),
    Jsonl(W),
    #[cfg(feature = "parquet")]
    Parquet(Box<crate::tables::Table<W>>),
}

impl<W: Write + Send> Writer<W> {
    /// Begins. `facts` stand in the footer of a form that has one.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(
        format: RowFormat,
        out: W,
        facts: Vec<(String, Option<String>)>,
    ) -> Result<Self, RowsError> {
        Ok(Self(match format {
            RowFormat::Csv { is_raw } => {
                let mut builder = csv::WriterBuilder::new();
                let mut writer = builder.terminator(csv::Terminator::CRLF).from_writer(out);
                writer.write_record(super::COLUMNS)?;
                drop(facts);
                To::Csv(Box::new(writer), is_raw)
            }
            RowFormat::Jsonl => To::Jsonl(out),
            #[cfg(feature = "parquet")]
            RowFormat::Parquet => To::Parquet(Box::new(crate::tables::Table::new(
                out,
                "settlements",
                &kinds(),
                facts,
            )?)),
        }))
    }

    /// The next row.
    ///
    /// # Errors
    /// Those of where it goes.
    pub fn row(&mut self, row: &Row) -> Result<(), RowsError> {
        match &mut self.0 {
            To::Csv(writer, is_raw) => {
                writer.write_record(ALL.map(|(_, cell)| cell(row).text(*is_raw)))?;
            }
            To::Jsonl(out) => out.write_all(json(row)?.as_bytes())?,
            #[cfg(feature = "parquet")]
            To::Parquet(table) => parquet_row(table, row)?,
        }
        Ok(())
    }

    /// What it was written into, where everything is.
    ///
    /// # Errors
    /// As above.
    pub fn finish(self) -> Result<W, RowsError> {
        Ok(match self.0 {
            To::Csv(writer, _) => writer.into_inner().map_err(csv::IntoInnerError::into_error)?,
            To::Jsonl(out) => out,
            #[cfg(feature = "parquet")]
            To::Parquet(table) => table.finish()?,
        })
    }
}

#[cfg(feature = "parquet")]
fn kinds() -> [(&'static str, crate::tables::Kind); ALL.len()] {
    use super::columns::Cell;
    use crate::tables::Kind;

    let row = Row::of("", &crate::unit::GpuUuid("".into()));
    ALL.map(|(name, cell)| {
        let kind = if matches!(cell(&row), Cell::Number(_)) { Kind::Integer } else { Kind::Text };
        (name, kind)
    })
}

#[cfg(feature = "parquet")]
fn parquet_row<W: Write + Send>(
    table: &mut crate::tables::Table<W>,
    row: &Row,
) -> Result<(), RowsError> {
    use super::columns::Cell;
    use crate::tables;

    let cells = ALL.map(|(_, cell)| cell(row));
    let cells: Vec<tables::Cell<'_>> = cells
        .iter()
        .map(|cell| match cell {
            // What is greater than a signed number can be is no moment and no length that the driver gives.
            Cell::Number(value) => {
                tables::Cell::Integer(value.and_then(|one| i64::try_from(one).ok()))
            }
            Cell::Word(value) | Cell::Name(value) => tables::Cell::Text(value.as_deref()),
        })
        .collect();
    Ok(table.row(&cells)?)
}
