//! Tables as Parquet: rows in, a file out, in constant memory.
//!
//! Purpose: the one place that knows Parquet (feature `parquet`). May touch: what it is given to write into.
//! May not: round, or write a zero for what is unknown, which is null. The same rows give the same bytes.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

/// Rows that are gathered before they are written: a few megabytes of the widest table.
const ROWS_GROUP: usize = 65_536;
/// Cells that are gathered at most, however wide the table is: a cell of text has forty bytes around it.
const CELLS_GROUP: usize = 8 * ROWS_GROUP;

/// What a column holds. Every column may be null.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Whole numbers in a base unit.
    Integer,
    /// Yes or no.
    Boolean,
    /// UTF-8.
    Text,
}

/// A cell; `None` is null.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell<'text> {
    Integer(Option<i64>),
    Boolean(Option<bool>),
    Text(Option<&'text str>),
}

/// Why a table was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    /// The library, or what it writes into, refused.
    #[error("the table cannot be written: {0}")]
    Parquet(#[from] ParquetError),
    /// A row that is not of the table's columns: a mistake of whoever writes it.
    #[error("a row does not have the columns of its table")]
    Columns,
}

/// The cells of one column that are not written yet.
enum Gathered {
    Integer(Vec<Option<i64>>),
    Boolean(Vec<Option<bool>>),
    Text(Vec<Option<ByteArray>>),
}

impl Gathered {
    const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Integer(Vec::new()),
            Kind::Boolean => Self::Boolean(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
        }
    }

    fn push(&mut self, cell: Cell<'_>) -> Result<(), TableError> {
        match (self, cell) {
            (Self::Integer(cells), Cell::Integer(value)) => cells.push(value),
            (Self::Boolean(cells), Cell::Boolean(value)) => cells.push(value),
            (Self::Text(cells), Cell::Text(value)) => cells.push(value.map(ByteArray::from)),
            _ => return Err(TableError::Columns),
        }
        Ok(())
    }

    fn write(&mut self, mut column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::Integer(cells) => written::<Int64Type>(&mut column, cells)?,
            Self::Boolean(cells) => written::<BoolType>(&mut column, cells)?,
            Self::Text(cells) => written::<ByteArrayType>(&mut column, cells)?,
        }
        column.close()
    }
}

fn written<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: &mut Vec<Option<T::T>>,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.drain(..).flatten().collect();
    column.typed::<T>().write_batch(&values, Some(&levels), None)?;
    Ok(())
}

/// A table that is being written.
pub(crate) struct Table<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Gathered>,
    rows: usize,
    /// Of a group.
    rows_max: usize,
}

impl<W: Write + Send> Table<W> {
    /// A table with these columns; `facts` stand in its footer.
    pub(crate) fn new(
        out: W,
        name: &str,
        columns: &[(&str, Kind)],
        facts: Vec<(String, Option<String>)>,
    ) -> Result<Self, TableError> {
        let fields = columns.iter().map(|(name, kind)| {
            let (physical, logical) = match kind {
                Kind::Integer => (Physical::INT64, None),
                Kind::Boolean => (Physical::BOOLEAN, None),
                Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical);
            field.build().map(Arc::new)
        });
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder(name).with_fields(fields).build()?;
        let facts = facts.into_iter().map(|(key, value)| KeyValue { key, value }).collect();
        let properties = WriterProperties::builder()
            .set_created_by(format!("gpu-ledger {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(facts))
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let rows_max = CELLS_GROUP.checked_div(columns.len()).unwrap_or(ROWS_GROUP);
        let columns = columns.iter().map(|(_, kind)| Gathered::of(*kind)).collect();
        Ok(Self { file, columns, rows: 0, rows_max: rows_max.clamp(1, ROWS_GROUP) })
    }

    /// The next row.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TableError> {
        if cells.len() != self.columns.len() {
            return Err(TableError::Columns);
        }
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(*cell)?;
        }
        self.rows = self.rows.saturating_add(1);
        if self.rows >= self.rows_max { self.group() } else { Ok(()) }
    }

    fn group(&mut self) -> Result<(), TableError> {
        self.rows = 0;
        let mut group = self.file.next_row_group()?;
        for gathered in &mut self.columns {
            let column = group.next_column()?.ok_or(TableError::Columns)?;
            gathered.write(column)?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes what is left and the footer.
    pub(crate) fn finish(mut self) -> Result<W, TableError> {
        if self.rows > 0 {
            self.group()?;
        }
        Ok(self.file.into_inner()?)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::{Cell, Kind, ROWS_GROUP, Table, TableError};

    const COLUMNS: [(&str, Kind); 3] =
        [("number", Kind::Integer), ("known", Kind::Boolean), ("why", Kind::Text)];

    fn table(rows: usize) -> Vec<u8> {
        let facts = vec![("verdict".to_owned(), Some("valid".to_owned()))];
        let mut table = Table::new(Vec::new(), "t", &COLUMNS, facts).unwrap();
        for row in 0..rows {
            let number = (row % 3 != 0).then_some(i64::try_from(row).unwrap() - 5);
            let why = number.is_none().then_some("größe");
            let cells =
                [Cell::Integer(number), Cell::Boolean(Some(number.is_some())), Cell::Text(why)];
            table.row(&cells).unwrap();
        }
        table.finish().unwrap()
    }

    #[test]
    fn what_is_null_stays_null_and_the_footer_says_what_it_is_of() {
        for rows in [0, 1, 7, ROWS_GROUP, ROWS_GROUP + 1] {
            let bytes = table(rows);
            assert_eq!(bytes, table(rows), "the same rows give the same bytes");
            let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
            let metadata = reader.metadata().file_metadata();
            assert_eq!(usize::try_from(metadata.num_rows()).unwrap(), rows);
            let facts = metadata.key_value_metadata().unwrap();
            assert_eq!((&*facts[0].key, facts[0].value.as_deref()), ("verdict", Some("valid")));
            let read: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
            for (row, read) in read.iter().enumerate() {
                let told = read.to_string();
                let expected = if row % 3 == 0 {
                    "{number: null, known: false, why: \"größe\"}".to_owned()
                } else {
                    format!(
                        "{{number: {}, known: true, why: null}}",
                        i64::try_from(row).unwrap() - 5
                    )
                };
                assert_eq!(told, expected);
            }
        }
    }

    #[test]
    fn a_row_of_another_table_is_refused() {
        let mut table = Table::new(Vec::new(), "t", &COLUMNS, Vec::new()).unwrap();
        let short = table.row(&[Cell::Integer(None)]);
        assert!(matches!(short, Err(TableError::Columns)));
        let wrong = table.row(&[Cell::Text(None), Cell::Boolean(None), Cell::Text(None)]);
        assert!(matches!(wrong, Err(TableError::Columns)));
    }
}
