//! Rows as a file or a text of a format: what `read` reads, the other way round.

use std::io;
use std::sync::Arc;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::csv::QuoteStyle;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use proofmill_pipeline::kinds::read::{Compression, Format};

use crate::detect::by_name;
use crate::format::{FORMATS, Fields, FormatTraits, traits};

/// Why rows cannot be written in a format.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the column `{column}` is nested, which {format} cannot hold")]
    Nested { column: String, format: &'static str },
    #[error("`{format}` holds one column of texts, and there {columns}")]
    NotOneText { format: &'static str, columns: String },
    /// A value would read back as something else.
    #[error("row {row}: the column `{column}` has {what}, which {format} cannot hold")]
    Value { row: u64, column: String, what: &'static str, format: &'static str },
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    #[error("the rows cannot be written: {0}")]
    Out(#[from] io::Error),
}

/// The format that the name of a file says; `None` if it says none, or a compression, which nothing is written with.
pub fn format_of(name: &str) -> Option<Format> {
    let (format, compression) = by_name(name);
    format.filter(|_| compression == Compression::None)
}

/// The usual ending of a file of each format, as a sentence names them.
pub fn endings() -> String {
    let endings: Vec<String> = FORMATS
        .iter()
        .filter_map(|format| traits(*format).endings.first().map(|ending| format!("`.{ending}`")))
        .collect();
    match endings.split_last() {
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Checks that tables with these columns can be written in a format.
///
/// # Errors
///
/// The first column that the format cannot hold.
pub fn check_columns(format: Format, schema: &Schema) -> Result<(), WriteError> {
    let FormatTraits { fields, label, .. } = traits(format);
    let mut all = schema.fields().iter();
    match fields {
        Fields::Named | Fields::Columns => Ok(()),
        Fields::Cells { .. } => match all.find(|field| field.data_type().is_nested()) {
            Some(field) => Err(WriteError::Nested { column: field.name().clone(), format: label }),
            None => Ok(()),
        },
        Fields::Line => match all.as_slice() {
            [one] if is_text(one.data_type()) => Ok(()),
            [one] => {
                let columns = format!("is `{}`, which has other values", one.name());
                Err(WriteError::NotOneText { format: label, columns })
            }
            several => {
                let columns = format!("are {}", several.len());
                Err(WriteError::NotOneText { format: label, columns })
            }
        },
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, value) => is_text(value),
        kind => kind.is_string(),
    }
}

/// Rows as text, batch by batch.
#[derive(Debug)]
pub struct RowsAsText {
    format: Format,
    schema: SchemaRef,
    rows: u64,
}

impl RowsAsText {
    /// Text in `format`, which is none for Parquet.
    ///
    /// # Errors
    ///
    /// As [`check_columns`].
    pub fn new(format: Format, schema: &SchemaRef) -> Result<Self, WriteError> {
        check_columns(format, schema)?;
        Ok(Self { format, schema: Arc::clone(schema), rows: 0 })
    }

    /// What stands before the first row.
    ///
    /// # Errors
    ///
    /// If the names of the columns cannot be held.
    pub fn begin(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        match traits(self.format).fields {
            Fields::Cells { .. } => {
                self.cells(&RecordBatch::new_empty(Arc::clone(&self.schema)), true, out)
            }
            Fields::Named if self.format == Format::Json => {
                out.push(b'[');
                Ok(())
            }
            Fields::Named | Fields::Line | Fields::Columns => Ok(()),
        }
    }

    /// The next rows.
    ///
    /// # Errors
    ///
    /// A value that cannot be held.
    pub fn add(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), WriteError> {
        match traits(self.format).fields {
            Fields::Cells { .. } => self.cells(batch, false, out)?,
            Fields::Line => self.lines(batch, out)?,
            Fields::Named if self.format == Format::Json => {
                let mut lines = Vec::new();
                objects(batch, &mut lines)?;
                // Texts in JSON have no line breaks.
                let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                for (line, row) in lines.zip(self.rows..) {
                    out.extend_from_slice(if row == 0 { b"\n" } else { b",\n" });
                    out.extend_from_slice(line);
                }
            }
            Fields::Named => objects(batch, out)?,
            Fields::Columns => {}
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// What stands behind the last row.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.format == Format::Json {
            out.extend_from_slice(if self.rows == 0 { b"]\n" } else { b"\n]\n" });
        }
    }

    fn cells(
        &self,
        batch: &RecordBatch,
        with_header: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), WriteError> {
        let Fields::Cells { delimiter, quoted } = traits(self.format).fields else { return Ok(()) };
        let style = if quoted { QuoteStyle::Necessary } else { QuoteStyle::Never };
        if !quoted {
            let names = self.schema.fields().iter().map(|field| (field.name(), field.name()));
            for (column, name) in names.filter(|_| with_header) {
                self.unquoted(name, 0, column)?;
            }
            for (column, field) in batch.columns().iter().zip(self.schema.fields()) {
                if is_text(field.data_type()) {
                    let texts = cast(column, &DataType::Utf8)?;
                    for (text, row) in texts.as_string::<i32>().iter().zip(self.rows + 1..) {
                        self.unquoted(text.unwrap_or_default(), row, field.name())?;
                    }
                }
            }
        }
        let writer = arrow::csv::WriterBuilder::new().with_header(with_header);
        let writer = writer.with_delimiter(delimiter).with_quote_style(style);
        Ok(writer.build(out).write(batch)?)
    }

    fn lines(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), WriteError> {
        for (column, field) in batch.columns().iter().zip(self.schema.fields()) {
            let texts = cast(column, &DataType::Utf8)?;
            for (text, row) in texts.as_string::<i32>().iter().zip(self.rows + 1..) {
                let text = text.unwrap_or_default();
                self.unquoted(text, row, field.name())?;
                out.extend_from_slice(text.as_bytes());
                out.push(b'\n');
            }
        }
        Ok(())
    }

    /// Checks that nothing in a text ends its cell or its line.
    fn unquoted(&self, text: &str, row: u64, column: &str) -> Result<(), WriteError> {
        let FormatTraits { fields, label, .. } = traits(self.format);
        let what = match text {
            text if text.contains(['\n', '\r']) => "a line break",
            text if fields != Fields::Line && text.contains('\t') => "a tab",
            _ => return Ok(()),
        };
        Err(WriteError::Value { row, column: column.to_owned(), what, format: label })
    }
}

/// Each row as a JSON object on a line of its own, with its NULLs.
fn objects(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, arrow::json::writer::LineDelimited>(out);
    writer.write(batch)?;
    writer.finish()
}

/// Writes a file of a format. Blocks.
///
/// # Errors
///
/// Those of the rows; a value that the format cannot hold; what `out` refuses.
pub fn write_rows<E: From<WriteError>>(
    format: Format,
    schema: &SchemaRef,
    mut out: impl io::Write + Send,
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
) -> Result<(), E> {
    let failed = |error: io::Error| E::from(WriteError::Out(error));
    if format == Format::Parquet {
        let parquet = |error: ParquetError| E::from(WriteError::Parquet(error));
        let writer = ArrowWriter::try_new(&mut out, Arc::clone(schema), None);
        let mut writer = writer.map_err(parquet)?;
        for batch in batches {
            writer.write(&batch?).map_err(parquet)?;
        }
        writer.close().map_err(parquet)?;
        return out.flush().map_err(failed);
    }
    let mut text = RowsAsText::new(format, schema)?;
    let mut bytes = Vec::new();
    text.begin(&mut bytes)?;
    for batch in batches {
        text.add(&batch?, &mut bytes)?;
        out.write_all(&bytes).map_err(failed)?;
        bytes.clear();
    }
    text.end(&mut bytes);
    out.write_all(&bytes).and_then(|()| out.flush()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn batch(texts: &[Option<&str>]) -> RecordBatch {
        let numbers: Int64Array = (0..texts.len() as i64).collect();
        let texts: StringArray = texts.iter().copied().collect();
        let columns = [("n", Arc::new(numbers) as ArrayRef), ("text", Arc::new(texts))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn written(format: Format, batches: &[RecordBatch]) -> Result<String, WriteError> {
        let mut out = Vec::new();
        let all = batches.iter().cloned().map(Ok::<_, WriteError>);
        write_rows(format, &batches[0].schema(), &mut out, all)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn the_list_has_every_format_with_its_name() {
        // The names of all variants are in what is said of one that does not exist.
        let said = serde_json::from_str::<Format>("\"x\"").unwrap_err().to_string();
        let (_, listed) = said.split_once("expected one of ").unwrap();
        let named: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
        assert_eq!(FORMATS.map(|format| traits(format).name).to_vec(), named);
    }

    #[test]
    fn text_formats_begin_and_end_once_however_many_batches_there_are() {
        let (one, two) = (batch(&[Some("a,b"), None]), batch(&[Some("\"")]));
        let all = [one, two];
        let expected = [
            (Format::Csv, "n,text\n0,\"a,b\"\n1,\n0,\"\"\"\"\n"),
            (Format::Tsv, "n\ttext\n0\ta,b\n1\t\n0\t\"\n"),
            (
                Format::Jsonl,
                "{\"n\":0,\"text\":\"a,b\"}\n{\"n\":1,\"text\":null}\n{\"n\":0,\"text\":\"\\\"\"}\n",
            ),
            (
                Format::Json,
                "[\n{\"n\":0,\"text\":\"a,b\"},\n{\"n\":1,\"text\":null},\n{\"n\":0,\"text\":\"\\\"\"}\n]\n",
            ),
        ];
        for (format, text) in expected {
            assert_eq!(written(format, &all).unwrap(), text);
        }
        let lines = all.map(|batch| batch.project(&[1]).unwrap());
        assert_eq!(written(Format::Lines, &lines).unwrap(), "a,b\n\n\"\n");
        assert_eq!(written(Format::Json, &[batch(&[])]).unwrap(), "[]\n");
    }

    #[test]
    fn values_that_would_read_back_as_something_else_are_named() {
        for (format, text, what) in [
            (Format::Tsv, "a\tb", "row 2: the column `text` has a tab, which TSV cannot hold"),
            (
                Format::Tsv,
                "a\nb",
                "row 2: the column `text` has a line break, which TSV cannot hold",
            ),
            (Format::Lines, "a\rb", "row 2: the column `text` has a line break"),
        ] {
            let mut all = batch(&[Some("a"), Some(text)]);
            if format == Format::Lines {
                all = all.project(&[1]).unwrap();
            }
            let error = written(format, &[all]).unwrap_err().to_string();
            assert!(error.starts_with(what), "{error}");
        }
        let error = written(Format::Lines, &[batch(&[])]).unwrap_err().to_string();
        assert_eq!(error, "`a file of lines` holds one column of texts, and there are 2");
    }
}
