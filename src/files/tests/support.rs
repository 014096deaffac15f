//! Files in a folder of their own, and what reading them comes to, as text.

use std::ops::ControlFlow;
use std::path::Path;

use arrow::array::{Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Value, json};

use crate::{ErrorRow, FilesError, Source, Summary, open};
use proofmill_pipeline::kinds::read::Read;

/// A folder of files.
pub struct Folder(tempfile::TempDir);

/// What a read came to.
pub struct Outcome {
    pub source: Source,
    pub batches: Vec<RecordBatch>,
    pub errors: Vec<ErrorRow>,
    pub summary: Summary,
    pub bytes_read: u64,
}

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Removes the path of the folder from a text.
    pub fn strip(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// Settings for `path`, with the keys of `more`.
pub fn settings(path: impl serde::Serialize, more: Value) -> Read {
    let mut settings = json!({"path": path});
    if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
        settings.extend(more);
    }
    serde_json::from_value(settings).unwrap()
}

pub fn read(path: &str) -> Outcome {
    read_with(path, json!({}))
}

pub fn read_with(path: impl serde::Serialize, more: Value) -> Outcome {
    let source = open(&settings(path, more)).unwrap();
    read_source(source, 2).unwrap()
}

/// The error of opening or else of reading.
pub fn error(path: impl serde::Serialize, more: Value) -> FilesError {
    match open(&settings(path, more)) {
        Ok(source) => match read_source(source, 2) {
            Ok(outcome) => panic!("no error but {:?}", outcome.rows()),
            Err(error) => error,
        },
        Err(error) => error,
    }
}

pub fn read_source(source: Source, batch_rows: usize) -> Result<Outcome, FilesError> {
    let (mut batches, mut errors, mut bytes_read) = (Vec::new(), Vec::new(), 0);
    let mut summary = Summary::default();
    for partition in source.partitions(usize::MAX) {
        let part = source.read(&partition, batch_rows, &mut |chunk| {
            batches.extend(chunk.batch);
            errors.extend(chunk.errors);
            bytes_read += chunk.bytes_read;
            ControlFlow::Continue(())
        })?;
        summary.add(&part);
    }
    Ok(Outcome { source, batches, errors, summary, bytes_read })
}

impl Outcome {
    /// `name: Type` of every column but the first.
    pub fn columns(&self) -> Vec<String> {
        let schema = self.source.schema();
        let fields = schema.fields().iter().skip(1);
        fields.map(|field| format!("{}: {}", field.name(), field.data_type())).collect()
    }

    /// The rows without their ids, cells between `|`, NULL as `-`.
    pub fn rows(&self) -> Vec<String> {
        let options = FormatOptions::default().with_null("-");
        let rows = self.batches.iter().flat_map(|batch| {
            (0..batch.num_rows()).map(|row| {
                let cell = |column| {
                    let formatter = ArrayFormatter::try_new(column, &options).unwrap();
                    formatter.value(row).to_string()
                };
                let cells = batch.columns()[1..].iter().map(|column| cell(column.as_ref()));
                cells.collect::<Vec<_>>().join("|")
            })
        });
        rows.collect()
    }

    pub fn row_ids(&self) -> Vec<String> {
        let ids = self.batches.iter().flat_map(|batch| {
            let ids = batch.column(0).as_any().downcast_ref::<arrow::array::StringArray>();
            ids.unwrap().iter().map(|id| id.unwrap().to_owned()).collect::<Vec<_>>()
        });
        ids.collect()
    }

    /// `row@line class column: message` of every error row.
    pub fn faults(&self) -> Vec<String> {
        let fault = |error: &ErrorRow| {
            let line = error.line.map_or_else(|| "-".to_owned(), |line| line.to_string());
            let column = error.column.as_deref().unwrap_or("-");
            format!("{}@{line} {} {column}: {}", error.row, error.class.as_str(), error.message)
        };
        self.errors.iter().map(fault).collect()
    }
}

/// The last part of a path.
pub fn name(path: &str) -> &str {
    Path::new(path).file_name().unwrap().to_str().unwrap()
}
