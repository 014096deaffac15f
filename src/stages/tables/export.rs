//! Rows as files for other programs: JSON Lines, CSV and Parquet, written beside and renamed when they are
//! whole.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use futures::{Stream, StreamExt};
use parquet::arrow::ArrowWriter;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::stages::error::StageError;
use crate::stages::tables::outside::Replacement;
use proofmill_base::digest::{Digest, Hasher};
use proofmill_pipeline::kinds::write::WriteFormat;

/// Batches between a query and the thread that writes them.
const BATCHES_QUEUED_MAX: usize = 4;

/// A file that was written.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Exported {
    pub rows: u64,
    pub bytes: u64,
    pub sha256: Digest,
}

/// What goes to the thread that writes: rows, or `None` after the last ones. A sender that is gone without it
/// was stopped, and the file is not whole.
type Sent = Result<Option<RecordBatch>, StageError>;

/// The format that the name of a file tells.
pub fn format_of(path: &Path) -> Option<WriteFormat> {
    match path.extension()?.to_str()? {
        "jsonl" | "ndjson" => Some(WriteFormat::Jsonl),
        "csv" => Some(WriteFormat::Csv),
        "parquet" => Some(WriteFormat::Parquet),
        _ => None,
    }
}

/// The first column that CSV cannot hold.
pub fn first_nested(schema: &SchemaRef) -> Option<&Field> {
    schema.fields().iter().map(AsRef::as_ref).find(|field| field.data_type().is_nested())
}

/// Writes rows to a file, a few batches at a time in memory. Where it ends early, the file that was there stays.
///
/// # Errors
///
/// Those of the rows, and what the file system or the format refuses.
pub async fn export(
    path: PathBuf,
    format: WriteFormat,
    schema: SchemaRef,
    mut rows: impl Stream<Item = Result<RecordBatch, StageError>> + Unpin,
) -> Result<Exported, StageError> {
    let (sender, mut sent) = mpsc::channel::<Sent>(BATCHES_QUEUED_MAX);
    let writer = tokio::task::spawn_blocking(move || {
        let batches = std::iter::from_fn(|| match sent.blocking_recv() {
            Some(sent) => sent.transpose(),
            None => Some(Err(StageError::Stopped)),
        });
        write(&path, format, &schema, batches)
    });
    loop {
        let batch = rows.next().await.transpose();
        let is_last = !matches!(batch, Ok(Some(_)));
        if sender.send(batch).await.is_err() || is_last {
            break;
        }
    }
    writer.await.map_err(|error| StageError::Task(error.to_string()))?
}

/// Blocking.
fn write(
    path: &Path,
    format: WriteFormat,
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, StageError>>,
) -> Result<Exported, StageError> {
    let failed = |source| StageError::Write { path: path.display().to_string(), source };
    let mut replacement = Replacement::of(path)?;
    let mut rows = 0;
    {
        let out = BufWriter::new(replacement.file());
        let counted =
            batches.inspect(|batch| rows += batch.as_ref().map_or(0, RecordBatch::num_rows));
        encode(format, schema, out, counted)?;
    }
    let (sha256, bytes) = digest(replacement.reopen()?).map_err(failed)?;
    replacement.commit()?;
    Ok(Exported { rows: rows as u64, bytes, sha256 })
}

fn encode(
    format: WriteFormat,
    table: &SchemaRef,
    mut out: impl io::Write + Send,
    batches: impl Iterator<Item = Result<RecordBatch, StageError>>,
) -> Result<(), StageError> {
    match format {
        WriteFormat::Jsonl => {
            for batch in batches {
                json_lines(&batch?, &mut out)?;
            }
        }
        WriteFormat::Csv => {
            csv(&RecordBatch::new_empty(Arc::clone(table)), true, &mut out)?;
            for batch in batches {
                csv(&batch?, false, &mut out)?;
            }
        }
        WriteFormat::Parquet => {
            let parquet = |error: parquet::errors::ParquetError| {
                StageError::Query(datafusion::common::DataFusionError::ParquetError(Box::new(
                    error,
                )))
            };
            let mut writer =
                ArrowWriter::try_new(&mut out, Arc::clone(table), None).map_err(parquet)?;
            for batch in batches {
                writer.write(&batch?).map_err(parquet)?;
            }
            writer.close().map_err(parquet)?;
        }
    }
    out.flush().map_err(|source| StageError::Write { path: "the export".to_owned(), source })
}

/// Each row as a JSON object on a line of its own, with its NULLs.
pub fn json_lines(batch: &RecordBatch, out: impl io::Write) -> Result<(), ArrowError> {
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, arrow::json::writer::LineDelimited>(out);
    writer.write(batch)?;
    writer.finish()
}

/// The rows as CSV, below the names of the columns if those are wanted.
pub fn csv(batch: &RecordBatch, with_header: bool, out: impl io::Write) -> Result<(), ArrowError> {
    arrow::csv::WriterBuilder::new().with_header(with_header).build(out).write(batch)
}

/// The digest and the length of a file.
pub fn digest(file: File) -> io::Result<(Digest, u64)> {
    let (mut hasher, mut bytes) = (Hasher::default(), 0);
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok((hasher.finish(), bytes)),
            n => {
                hasher.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
}
