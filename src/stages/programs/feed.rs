//! Tables on their way to a program: encoded in pieces of the same rows however the table is stored, through a
//! pipe or into a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use arrow::json::writer::LineDelimited;
use datafusion::common::DataFusionError;
use futures::StreamExt;
use futures::stream::BoxStream;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use proofmill_pipeline::kinds::command::Exchange;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::stages::error::StageError;

/// Batches between a table and the thread that writes it to a file.
const BATCHES_QUEUED_MAX: usize = 4;

/// The rows of a table.
pub type RowStream = BoxStream<'static, Result<RecordBatch, StageError>>;

/// Writes batches in one format.
enum Encoder<W: Write + Send> {
    Jsonl(W),
    Arrow(Box<StreamWriter<W>>),
    Parquet(Box<ArrowWriter<W>>),
}

impl<W: Write + Send> Encoder<W> {
    fn new(exchange: Exchange, schema: &SchemaRef, out: W) -> Result<Self, StageError> {
        Ok(match exchange {
            Exchange::Jsonl => Self::Jsonl(out),
            Exchange::Arrow => Self::Arrow(Box::new(StreamWriter::try_new(out, schema)?)),
            Exchange::Parquet => {
                let writer = ArrowWriter::try_new(out, SchemaRef::clone(schema), None);
                Self::Parquet(Box::new(writer.map_err(encoding)?))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), StageError> {
        match self {
            Self::Jsonl(out) => {
                let builder = arrow::json::WriterBuilder::new().with_explicit_nulls(true);
                let mut writer = builder.build::<_, LineDelimited>(out);
                writer.write(batch)?;
                Ok(writer.finish()?)
            }
            Self::Arrow(writer) => Ok(writer.write(batch)?),
            Self::Parquet(writer) => writer.write(batch).map_err(encoding),
        }
    }

    /// Where it writes; nothing for Parquet, which is whole or nothing.
    fn out(&mut self) -> Option<&mut W> {
        match self {
            Self::Jsonl(out) => Some(out),
            Self::Arrow(writer) => Some(writer.get_mut()),
            Self::Parquet(_) => None,
        }
    }

    fn finish(self) -> Result<W, StageError> {
        match self {
            Self::Jsonl(out) => Ok(out),
            Self::Arrow(writer) => Ok(writer.into_inner()?),
            Self::Parquet(writer) => writer.into_inner().map_err(encoding),
        }
    }
}

fn encoding(error: ParquetError) -> StageError {
    StageError::Query(DataFusionError::ParquetError(Box::new(error)))
}

/// Writes a table into the pipe of a program, `rows_each` rows a piece. A program that does not read on is no
/// error: it knows what it needs.
pub async fn into_pipe(
    mut rows: RowStream,
    schema: SchemaRef,
    exchange: Exchange,
    rows_each: usize,
    mut to: pipe::Sender,
) -> Result<(), StageError> {
    let mut pieces = BatchCoalescer::new(SchemaRef::clone(&schema), rows_each);
    let mut encoder = Encoder::new(exchange, &schema, Vec::new())?;
    let mut more = true;
    while more {
        match rows.next().await {
            Some(batch) => pieces.push_batch(batch?)?,
            None => {
                pieces.finish_buffered_batch()?;
                more = false;
            }
        }
        while let Some(piece) = pieces.next_completed_batch() {
            encoder.write(&piece)?;
            if let Some(out) = encoder.out()
                && !send(&mut to, &std::mem::take(out)).await?
            {
                return Ok(());
            }
        }
    }
    send(&mut to, &encoder.finish()?).await?;
    Ok(())
}

/// False if the program no longer reads.
async fn send(to: &mut pipe::Sender, bytes: &[u8]) -> Result<bool, StageError> {
    match to.write_all(bytes).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(source) => {
            Err(StageError::Write { path: "standard input of the program".to_owned(), source })
        }
    }
}

/// Writes a table to a new file.
pub async fn into_file(
    mut rows: RowStream,
    schema: SchemaRef,
    exchange: Exchange,
    path: &Path,
) -> Result<(), StageError> {
    let (sender, mut batches) = mpsc::channel::<RecordBatch>(BATCHES_QUEUED_MAX);
    let to = path.to_owned();
    let writer = tokio::task::spawn_blocking(move || {
        let failed = |source| StageError::Write { path: to.display().to_string(), source };
        let file = BufWriter::new(File::create_new(&to).map_err(failed)?);
        let mut encoder = Encoder::new(exchange, &schema, file)?;
        while let Some(batch) = batches.blocking_recv() {
            encoder.write(&batch)?;
        }
        encoder.finish()?.flush().map_err(failed)
    });
    let mut read = Ok(());
    while let Some(batch) = rows.next().await {
        match batch {
            Ok(batch) => {
                if sender.send(batch).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                read = Err(error);
                break;
            }
        }
    }
    drop(sender);
    let written = writer.await.map_err(|error| StageError::Task(error.to_string()))?;
    read.and(written)
}
