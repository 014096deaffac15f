//! The records of text files with their places, one by one and without types: for what is read once and
//! taken apart by its reader.

use serde_json::{Map, Value};

use crate::error::FilesError;
use crate::read::open_records;
use crate::records::RecordContent;
use crate::source::{Layout, Source};

/// A record with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The file, as its path is shown.
    pub source: String,
    /// Line on which the record starts, from 1.
    pub line: u64,
    /// Its fields by name, or what is wrong with it. Cells of `csv` are texts, empty ones NULL.
    pub fields: Result<Map<String, Value>, String>,
}

impl Source {
    /// All records, in order; none of formats without lines.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub fn records(&self) -> Result<Vec<Placed>, FilesError> {
        let Layout::Text { options, .. } = &self.layout else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for file in &self.files {
            let (mut records, _) = open_records(file, options)?;
            let header = file.header.as_deref().unwrap_or_default();
            while let Some(record) = records.next()? {
                let fields = match record.content {
                    Ok(RecordContent::Object(_)) => {
                        serde_json::from_slice(record.raw).map_err(|error| error.to_string())
                    }
                    Ok(RecordContent::Cells(cells)) => {
                        let cells = cells.into_iter().map(|cell| match cell {
                            Some(text) if !text.is_empty() => Value::from(text),
                            _ => Value::Null,
                        });
                        Ok(header.iter().cloned().zip(cells).collect())
                    }
                    Err(fault) => Err(fault.message),
                };
                all.push(Placed { source: file.path.clone(), line: record.line, fields });
            }
        }
        Ok(all)
    }
}
