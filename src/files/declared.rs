//! Lines of JSON that a program writes, as rows of columns that are declared: nothing is inferred, and
//! what does not fit is an error row.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use indexmap::IndexMap;
use proofmill_base::suggest;
use proofmill_pipeline::kinds::command::{OutputColumn, OutputType};

use crate::build::Builder;
use crate::error_rows::{ErrorClass, ErrorRow, Fault, raw_text};
use crate::ignored::Ignored;
use crate::json::{Json, Object, get};
use crate::kind::Kind;
use crate::records::{RecordContent, object};
use crate::settings::ROW_ID;

/// A field, or a column of any format, that says why a row is an error row; of no table.
pub const ERROR_FIELD: &str = "$error";
/// A field beside it that says which input it was.
const INPUT_FIELD: &str = "$input";

/// Collects rows of declared columns.
#[derive(Debug)]
pub struct DeclaredRows {
    schema: SchemaRef,
    columns: Vec<Declared>,
    rows: usize,
    /// Records so far, blank lines aside.
    records: u64,
}

struct Declared {
    name: String,
    kind: Kind,
    nullable: bool,
    builder: Builder,
}

impl std::fmt::Debug for Declared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Declared").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The schema of declared columns, in their order.
pub fn declared_schema(columns: &IndexMap<String, OutputColumn>) -> SchemaRef {
    let field = |(name, column): (&String, &OutputColumn)| {
        let full = column.full();
        Field::new(name, kind(&full).data_type(), full.nullable)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn kind(column: &OutputType) -> Kind {
    let kind = Kind::from(column.kind);
    if column.list { Kind::List(Box::new(kind)) } else { kind }
}

impl DeclaredRows {
    /// No rows yet.
    pub fn new(columns: &IndexMap<String, OutputColumn>) -> Self {
        let declared = columns.iter().map(|(name, column)| {
            let full = column.full();
            let kind = kind(&full);
            let (name, builder) = (name.clone(), Builder::new(&kind));
            Declared { name, kind, nullable: full.nullable, builder }
        });
        let columns_of = declared.collect();
        Self { schema: declared_schema(columns), columns: columns_of, rows: 0, records: 0 }
    }

    /// Rows collected since [`Self::finish`].
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes line number `number`, from 1.
    ///
    /// # Errors
    ///
    /// The error row that the line is: because the program says so, or because it does not fit. Its source is
    /// the `row_id` of the line, if it has one.
    pub fn push(&mut self, number: u64, line: &[u8]) -> Result<(), Box<ErrorRow>> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.records += 1;
        let (row, line_number) = (self.records, Some(number));
        let failed = |source: String, Fault { class, column, message }, raw| {
            Box::new(ErrorRow { source, row, line: line_number, column, class, message, raw })
        };
        let record = match object(line) {
            Ok(RecordContent::Object(record)) => record,
            Ok(RecordContent::Cells(_)) => Object::new(),
            Err(fault) => return Err(failed(String::new(), fault, raw_text(line))),
        };
        self.append(&record).map_err(|fault| {
            let text = |name| get(&record, name, 0).and_then(Json::as_text);
            let raw = text(INPUT_FIELD).map(|input| raw_text(input.as_bytes()));
            let source = text(ROW_ID).unwrap_or_default().into_owned();
            failed(source, fault, raw.unwrap_or_else(|| raw_text(line)))
        })
    }

    /// Appends a record, whole or not at all.
    fn append(&mut self, record: &Object<'_>) -> Result<(), Fault> {
        if let Some(error) = get(record, ERROR_FIELD, record.len()).and_then(Json::as_text) {
            return Err(Fault::new(ErrorClass::Program, error));
        }
        let mut values = Vec::with_capacity(self.columns.len());
        let mut known = 0;
        for (i, column) in self.columns.iter().enumerate() {
            let value = get(record, &column.name, i);
            known += usize::from(value.is_some());
            let value = value.filter(|value| **value != Json::Null);
            match value {
                // A text is written as one; what is none is not made one in silence.
                Some(value) if !fits(&column.kind, value) => {
                    let mismatch = crate::kind::TypeMismatch::new(&column.kind, value);
                    return Err(mismatch.fault(&column.name, &column.name));
                }
                Some(value) => column
                    .kind
                    .check(value, &mut Ignored::default())
                    .map_err(|mismatch| mismatch.fault(&column.name, &column.name))?,
                None if column.nullable => {}
                None => return Err(missing(column, record)),
            }
            values.push(value);
        }
        let is_declared = |name: &str| self.columns.iter().any(|column| column.name == name);
        // `$error: null` is no error.
        let extra = record.iter().map(|(name, _)| name.as_ref());
        let mut extra = extra.filter(|name| !is_declared(name) && *name != ERROR_FIELD);
        if known < record.len()
            && let Some(name) = extra.next()
        {
            return Err(undeclared(name, self.columns.iter().map(|column| column.name.as_str())));
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.builder.append(value);
        }
        self.rows += 1;
        Ok(())
    }

    /// The rows collected; there are none after it.
    pub fn finish(&mut self) -> RecordBatch {
        let columns: Vec<ArrayRef> =
            self.columns.iter_mut().map(|column| column.builder.finish()).collect();
        let options =
            RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).expect(
            "the builders are made from the schema, and NULL was refused where it may not be",
        )
    }
}

/// Whether a text column gets a text; other types are left to [`Kind::check`].
fn fits(kind: &Kind, value: &Json<'_>) -> bool {
    match (kind, value) {
        (Kind::Text, value) => matches!(value, Json::Text(_)),
        (Kind::List(item), Json::List(items, _)) => {
            items.iter().all(|value| *value == Json::Null || fits(item, value))
        }
        (_, _) => true,
    }
}

fn missing(column: &Declared, record: &Object<'_>) -> Fault {
    let name = &column.name;
    let message = match get(record, name, 0) {
        Some(_) => {
            format!("column `{name}` is null; declare it with `nullable: true` if it may be")
        }
        None => format!("there is no `{name}`"),
    };
    Fault { class: ErrorClass::Fields, column: Some(name.clone()), message }
}

fn undeclared<'c>(name: &str, columns: impl Iterator<Item = &'c str> + Clone) -> Fault {
    let help = suggest::help(name, columns).map(|help| format!(": {help}")).unwrap_or_default();
    let message = format!("`{name}` is not among `columns`{help}");
    Fault { class: ErrorClass::Fields, column: Some(name.to_owned()), message }
}

#[cfg(test)]
mod tests {
    use proofmill_pipeline::kinds::read::ColumnType;

    use super::*;

    fn rows() -> DeclaredRows {
        let full = |kind, list, nullable| OutputColumn::Full(OutputType { kind, list, nullable });
        let columns = [
            ("row_id", OutputColumn::Type(ColumnType::String)),
            ("score", full(ColumnType::Number, false, true)),
            ("parts", full(ColumnType::Integer, true, true)),
        ];
        DeclaredRows::new(&columns.map(|(name, column)| (name.to_owned(), column)).into())
    }

    #[test]
    fn rows_are_taken_whole_or_become_error_rows() {
        let mut rows = rows();
        let good = [
            r#"{"row_id":"a","score":0.5,"parts":[1,null]}"#,
            r#"{"parts":null,"row_id":"b","$error":null}"#,
            "  ",
        ];
        for (number, line) in (1..).zip(good) {
            rows.push(number, line.as_bytes()).unwrap();
        }
        let bad = [
            (r#"{"row_id":1}"#, "column `row_id`: expected a text, found the number `1`"),
            (r#"{"row_id":"c","score":"1"}"#, "column `score`: expected a number"),
            (r#"{"row_id":"c","parts":[1.5]}"#, "column `parts[0]`: expected a whole number"),
            (r#"{"score":1}"#, "there is no `row_id`"),
            (r#"{"row_id":null}"#, "column `row_id` is null"),
            (
                r#"{"row_id":"c","scores":1}"#,
                "`scores` is not among `columns`: did you mean `score`?",
            ),
            (r#"{"row_id":"c","$error":"no"}"#, "no"),
            (r#"{"row_id":"#, "character"),
            ("[1]", "expected an object, found a list"),
        ];
        for (number, (line, message)) in (4..).zip(bad) {
            let error = rows.push(number, line.as_bytes()).unwrap_err();
            assert!(error.message.starts_with(message), "{line}: {}", error.message);
            assert_eq!((error.row, error.line), (number - 1, Some(number)), "{line}");
        }
        let batch = rows.finish();
        assert_eq!((batch.num_rows(), rows.rows()), (2, 0));
        assert!(!batch.schema().field(0).is_nullable());
    }

    #[test]
    fn an_error_names_its_row_and_shows_its_input() {
        let line = r#"{"row_id":"q7","$error":"s.py:3: ValueError: x","$input":{"n":"x"}}"#;
        let error = rows().push(1, line.as_bytes()).unwrap_err();
        assert_eq!((error.source.as_str(), error.class), ("q7", ErrorClass::Program));
        assert_eq!(
            (error.message.as_str(), error.raw.as_str()),
            ("s.py:3: ValueError: x", r#"{"n":"x"}"#)
        );
    }
}
