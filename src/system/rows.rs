//! Cells to Arrow.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use chrono::{DateTime, Utc};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Text,
    Count,
    Number,
    Time,
}

/// A value of a column; nothing where it is not known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    Count(i64),
    Number(f64),
    Time(DateTime<Utc>),
    Null,
}

impl Cell {
    pub fn text(value: impl ToString) -> Self {
        Self::Text(value.to_string())
    }

    pub fn count(value: impl TryInto<i64>) -> Self {
        Self::Count(value.try_into().unwrap_or(i64::MAX))
    }

    /// That of a value which may not be known.
    pub fn some<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Null, cell)
    }
}

/// The columns of a table, by their names.
pub(super) type Columns = &'static [(&'static str, ColumnType)];

/// The Arrow schema of such columns; all may be NULL.
pub(super) fn schema(columns: Columns) -> SchemaRef {
    let field = |(name, kind): &(&str, ColumnType)| {
        let kind = match kind {
            ColumnType::Text => DataType::Utf8,
            ColumnType::Count => DataType::Int64,
            ColumnType::Number => DataType::Float64,
            ColumnType::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        };
        Field::new(*name, kind, true)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Rows as one batch. A cell of another type than its column is NULL.
///
/// # Errors
///
/// If a row has other columns.
pub(super) fn batch(columns: Columns, rows: &[Vec<Cell>]) -> Result<RecordBatch, ArrowError> {
    let array = |(at, (_, kind)): (usize, &(&str, ColumnType))| -> ArrayRef {
        let cells = rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null));
        match kind {
            ColumnType::Text => Arc::new(StringArray::from_iter(cells.map(|cell| match cell {
                Cell::Text(text) => Some(text.as_str()),
                _ => None,
            }))),
            ColumnType::Count => Arc::new(Int64Array::from_iter(cells.map(|cell| match cell {
                Cell::Count(count) => Some(*count),
                _ => None,
            }))),
            ColumnType::Number => Arc::new(Float64Array::from_iter(cells.map(|cell| match cell {
                Cell::Number(number) => Some(*number),
                _ => None,
            }))),
            ColumnType::Time => {
                let times = cells.map(|cell| match cell {
                    Cell::Time(time) => Some(time.timestamp_micros()),
                    _ => None,
                });
                Arc::new(TimestampMicrosecondArray::from_iter(times).with_timezone("UTC"))
            }
        }
    };
    let arrays = columns.iter().enumerate().map(array).collect();
    RecordBatch::try_new(schema(columns), arrays)
}
