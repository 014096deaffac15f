//! Reading: chunks of rows and error rows, in the order of the records.

use std::ops::ControlFlow;

use crate::chunk::{Chunk, Sink, Summary};
use crate::columns::Plan;
use crate::error::FilesError;
use crate::error_rows::{ErrorRow, Fault, raw_text};
use crate::format::Fields;
use crate::limits::BATCH_BYTES_MAX;
use crate::records::Records;
use crate::settings::Options;
use crate::source_file::SourceFile;
use crate::stream::{HashingReader, open_text};
use crate::table::Table;
use proofmill_base::digest::Digest;

/// Opens a text file at its first record.
pub fn open_records(
    file: &SourceFile,
    options: &Options,
) -> Result<(Records, HashingReader), FilesError> {
    let (text, hashing) = open_text(&file.location, file.compression, options.encoding)
        .map_err(|error| FilesError::io(&file.path, error))?;
    let named = matches!(options.fields(), Fields::Cells { .. }) && options.header;
    let width = file.header.as_ref().map(Vec::len).filter(|_| !named);
    let mut records = Records::open(&file.path, text, options, width)?;
    if named && file.header.is_some() {
        records.header()?;
    }
    Ok((records, hashing))
}

/// Reads a text file and checks that it is still the file that was opened.
pub fn read_text(
    file: &SourceFile,
    options: &Options,
    plan: &Plan,
    batch_rows: usize,
    sink: Sink<'_>,
) -> Result<Summary, FilesError> {
    let (mut records, hashing) = open_records(file, options)?;
    let header = file.header.as_deref().unwrap_or_default();
    let table = Table::new(plan, plan.schema(), &file.digest, header);
    let mut reader = Reader {
        file,
        table,
        hashing,
        batch_rows: batch_rows.max(1),
        batch_bytes: 0,
        bytes_reported: 0,
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
    hashing: HashingReader,
    batch_rows: usize,
    batch_bytes: usize,
    bytes_reported: u64,
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
        self.hashing.digest().map_err(|error| FilesError::io(&self.file.path, error))
    }

    fn flush(&mut self, sink: Sink<'_>) -> ControlFlow<()> {
        let bytes_read = self.hashing.bytes_read() - self.bytes_reported;
        let batch = (self.table.rows() > 0).then(|| self.table.finish());
        let errors = std::mem::take(&mut self.errors);
        self.bytes_reported += bytes_read;
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
