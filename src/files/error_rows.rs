//! Error rows: records that cannot become rows of the table, and why.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::limits::RAW_CHARS_MAX;

/// A record that did not become a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRow {
    /// The file, as its path is shown.
    pub source: String,
    /// Number of the record in the file, from 1.
    pub row: u64,
    /// Line on which the record starts, from 1, where the format has lines.
    pub line: Option<u64>,
    /// Path of the field at fault, where it is one field.
    pub column: Option<String>,
    /// What kind of error it is.
    pub class: ErrorClass,
    pub message: String,
    /// The record as it stands in the file, cut to 2,000 characters.
    pub raw: String,
}

/// Kinds of errors of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorClass {
    /// The text does not follow the format.
    Syntax,
    /// The bytes are no text in the encoding.
    Encoding,
    /// A value is not of the type of its column.
    Type,
    /// Too many, too few or repeated fields.
    Fields,
    Size,
    /// The program that was to compute it says so.
    Program,
}

impl ErrorClass {
    /// The class as it is written into tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Encoding => "encoding",
            Self::Type => "type",
            Self::Fields => "fields",
            Self::Size => "size",
            Self::Program => "program",
        }
    }
}

/// What is wrong with a record, before it is known which record it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of error it is.
    pub class: ErrorClass,
    /// Path of the field at fault, where it is one field.
    pub column: Option<String>,
    pub message: String,
}

impl Fault {
    /// A fault of the record as a whole.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, column: None, message: message.into() }
    }
}

/// The schema of error rows.
pub fn error_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("row", DataType::UInt64, false),
        Field::new("line", DataType::UInt64, true),
        Field::new("column", DataType::Utf8, true),
        Field::new("class", DataType::Utf8, false),
        Field::new("message", DataType::Utf8, false),
        Field::new("raw", DataType::Utf8, false),
    ]))
}

/// Error rows as a batch of [`error_schema`].
pub fn error_batch(rows: &[ErrorRow]) -> RecordBatch {
    let text = |of: fn(&ErrorRow) -> &str| StringArray::from_iter_values(rows.iter().map(of));
    let columns: [arrow::array::ArrayRef; 7] = [
        Arc::new(text(|row| &row.source)),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.row))),
        Arc::new(UInt64Array::from_iter(rows.iter().map(|row| row.line))),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.column.as_deref()))),
        Arc::new(text(|row| row.class.as_str())),
        Arc::new(text(|row| &row.message)),
        Arc::new(text(|row| &row.raw)),
    ];
    RecordBatch::try_new(error_schema(), columns.into()).expect("columns follow the schema")
}

/// The part of a record that an error row keeps: without its line end, cut between characters.
pub fn raw_text(record: &[u8]) -> String {
    const CHAR_BYTES_MAX: usize = 4;
    let record = &record[..record.len().min(RAW_CHARS_MAX * CHAR_BYTES_MAX)];
    let text = String::from_utf8_lossy(record);
    text.trim_end_matches(['\r', '\n']).chars().take(RAW_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_rows_become_a_batch() {
        let row = ErrorRow {
            source: "a.jsonl".to_owned(),
            row: 3,
            line: Some(4),
            column: None,
            class: ErrorClass::Syntax,
            message: "expected the end".to_owned(),
            raw: "{} x".to_owned(),
        };
        let batch = error_batch(&[row.clone(), ErrorRow { line: None, ..row }]);
        assert_eq!(batch.schema(), error_schema());
        let table = arrow::util::pretty::pretty_format_batches(&[batch]).unwrap().to_string();
        let lines: Vec<_> = table.lines().collect();
        let expected = "| a.jsonl | 3   | 4    |        | syntax | expected the end | {} x |";
        assert_eq!(lines[3], expected);
        assert_eq!(lines[4], expected.replace("| 4 ", "|   "));
        assert_eq!(error_batch(&[]).num_rows(), 0);
    }

    #[test]
    fn records_are_cut_between_characters() {
        assert_eq!(raw_text("é".repeat(3_000).as_bytes()), "é".repeat(RAW_CHARS_MAX));
        assert_eq!(raw_text("𝄞".repeat(3_000).as_bytes()), "𝄞".repeat(RAW_CHARS_MAX));
        assert_eq!(raw_text(b"a b\r\n"), "a b");
    }
}
