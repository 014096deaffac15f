//! Rows as files for other programs, written beside and renamed when they are whole.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::{Stream, StreamExt};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::stages::error::StageError;
use crate::stages::tables::outside::Replacement;
use proofmill_base::digest::{Digest, Hasher};
use proofmill_files::write_rows;
use proofmill_pipeline::kinds::read::Format;

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

/// Writes rows to a file, a few batches at a time in memory. Where it ends early, the file that was there stays.
///
/// # Errors
///
/// Those of the rows, and what the file system or the format refuses.
pub async fn export(
    path: PathBuf,
    format: Format,
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
    format: Format,
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
        write_rows(format, schema, out, counted)?;
    }
    let (sha256, bytes) = digest(replacement.reopen()?).map_err(failed)?;
    replacement.commit()?;
    Ok(Exported { rows: rows as u64, bytes, sha256 })
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
