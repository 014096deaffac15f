//! Reading: chunks of rows and error rows, in the order of the records.

use std::ops::ControlFlow;

use arrow::array::RecordBatch;

use proofmill_base::digest::Digest;
use crate::columns::Plan;
use crate::error::FilesError;
use crate::error_rows::{ErrorRow, Fault, raw_text};
use crate::ignored::Ignored;
use crate::limits::BATCH_BYTES_MAX;
use crate::open::open_records;
use crate::records::Records;
use crate::settings::Options;
use crate::source::SourceFile;
use crate::stream::Tap;
use crate::table::Table;

/// What has been read since the last chunk.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Rows, if there are any.
    pub batch: Option<RecordBatch>,
    /// Records that did not become rows.
    pub errors: Vec<ErrorRow>,
    /// Bytes of the file.
    pub bytes_read: u64,
}

/// What a read came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records that became rows.
    pub rows: u64,
    /// Records that became error rows.
    pub errors: u64,
    /// Lines that were passed over because they are blank.
    pub blank_lines: u64,
    /// Fields that the sample did not show and that have no column.
    pub ignored: Ignored,
    /// Whether the sink stopped the read.
    pub stopped: bool,
}

impl Summary {
    /// Adds another part of the same read.
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.errors += other.errors;
        self.blank_lines += other.blank_lines;
        self.stopped |= other.stopped;
        other.ignored.iter().for_each(|(name, times)| self.ignored.add_times(name, times));
    }
}

/// Takes chunks, and says whether to go on.
pub type Sink<'s> = &'s mut dyn FnMut(Chunk) -> ControlFlow<()>;

/// Reads a text file and checks that it is still the file that was opened.
pub fn read_text(
    file: &SourceFile,
    options: &Options,
    plan: &Plan,
    batch_rows: usize,
    sink: Sink<'_>,
) -> Result<Summary, FilesError> {
    let (mut records, tap) = open_records(file, options)?;
    let header = file.header.as_deref().unwrap_or_default();
    let table = Table::new(plan, plan.schema(), &file.digest, header);
    let mut reader = Reader {
        file,
        table,
        tap,
        batch_rows: batch_rows.max(1),
        batch_bytes: 0,
        bytes_told: 0,
        errors: Vec::new(),
        summary: Summary::default(),
    };
    reader.run(&mut records, sink)?;
    reader.summary.blank_lines = records.blank();
    if !reader.summary.stopped && reader.digest()? != file.digest {
        return Err(FilesError::Changed { path: file.path.clone() });
    }
    Ok(reader.summary)
}

struct Reader<'r> {
    file: &'r SourceFile,
    table: Table<'r>,
    tap: Tap,
    batch_rows: usize,
    batch_bytes: usize,
    bytes_told: u64,
    errors: Vec<ErrorRow>,
    summary: Summary,
}

impl Reader<'_> {
    fn run(&mut self, records: &mut Records, sink: Sink<'_>) -> Result<(), FilesError> {
        let mut number = 0;
        while let Some(record) = records.next()? {
            number += 1;
            self.batch_bytes += record.raw.len();
            let pushed = record
                .content
                .and_then(|content| self.table.push(number, &content, &mut self.summary.ignored));
            match pushed {
                Ok(()) => self.summary.rows += 1,
                Err(fault) => {
                    self.summary.errors += 1;
                    self.errors.push(error_row(self.file, number, record.line, fault, record.raw));
                }
            }
            let full = self.table.rows() >= self.batch_rows
                || self.errors.len() >= self.batch_rows
                || self.batch_bytes >= BATCH_BYTES_MAX;
            if full && self.flush(sink).is_break() {
                self.summary.stopped = true;
                return Ok(());
            }
        }
        self.summary.stopped = self.flush(sink).is_break();
        Ok(())
    }

    /// The digest of the file as it was read now.
    fn digest(&self) -> Result<Digest, FilesError> {
        self.tap.digest().map_err(|error| FilesError::io(&self.file.path, error))
    }

    fn flush(&mut self, sink: Sink<'_>) -> ControlFlow<()> {
        let bytes_read = self.tap.bytes_read() - self.bytes_told;
        let batch = (self.table.rows() > 0).then(|| self.table.finish());
        let errors = std::mem::take(&mut self.errors);
        self.bytes_told += bytes_read;
        self.batch_bytes = 0;
        if batch.is_none() && errors.is_empty() && bytes_read == 0 {
            return ControlFlow::Continue(());
        }
        sink(Chunk { batch, errors, bytes_read })
    }
}

fn error_row(file: &SourceFile, row: u64, line: u64, fault: Fault, raw: &[u8]) -> ErrorRow {
    let Fault { class, column, message } = fault;
    let source = file.path.clone();
    ErrorRow { source, row, line: Some(line), column, class, message, raw: raw_text(raw) }
}
