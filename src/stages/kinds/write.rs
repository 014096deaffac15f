//! `write`: a table exported to a file outside the store, replaced as a whole.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use futures::StreamExt;
use parquet::arrow::ArrowWriter;

use crate::stages::error::StageError;
use crate::stages::kind::{Kind, Preparation, Preparing, Traits};
use crate::stages::plan::{Execution, Export, StagePlan};
use crate::stages::sink::Computed;
use crate::stages::tables::outside::{self, Replacement};
use crate::stages::tables::rows;
use proofmill_base::digest::{Digest, Hasher};
use proofmill_base::ids::StageName;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::write::{Write, WriteFormat};
use proofmill_store::NamedFile;
use tokio::sync::mpsc;

/// Batches between a table and the thread that exports it.
const BATCHES_QUEUED_MAX: usize = 4;

/// A prepared `write`.
#[derive(Clone, Debug)]
pub struct WritePlan {
    /// The stage that is exported.
    pub from: StageName,
    pub path: PathBuf,
    format: WriteFormat,
    schema: SchemaRef,
}

#[async_trait]
impl StagePlan for WritePlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let (sink, store) = (execution.sink, &execution.sink.store);
        let Some(table) = execution.table(&self.from) else { return Ok(Computed::default()) };
        let mut rows = rows::of_table(table, store);
        let (sender, mut batches) = mpsc::channel(BATCHES_QUEUED_MAX);
        let (plan, schema) = (self.clone(), table.schema());
        let writer = tokio::task::spawn_blocking(move || {
            export(&plan, &schema, std::iter::from_fn(|| batches.blocking_recv()))
        });
        while let Some(batch) = rows.next().await {
            if sender.send(batch).await.is_err() {
                break;
            }
        }
        drop(sender);
        let written = writer.await.map_err(|error| StageError::Task(error.to_string()))??;
        sink.table(written).await
    }
}

impl Export for WritePlan {
    /// True if the file is still what the stored table of this stage says.
    fn is_current(&self, rows: &[RecordBatch], _: &[NamedFile]) -> bool {
        let recorded = rows.first().and_then(|batch| {
            batch.column_by_name("sha256")?.as_any().downcast_ref::<StringArray>().cloned()
        });
        let found = outside::open(&self.path).and_then(digest).ok();
        match (recorded, found) {
            (Some(recorded), Some((found, _))) if !recorded.is_empty() => {
                recorded.value(0) == found.to_string()
            }
            _ => false,
        }
    }
}

impl Kind for Write {
    fn traits(&self) -> Traits {
        Traits { version: 1, rows_can_fail: false, has_partitions: false, is_result: false }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, components, diagnostics, .. } = context;
        let from = inputs.name("from")?.clone();
        let input = inputs.table_of(&from)?.schema();
        let path = PathBuf::from(&self.path);
        let format = self.format.or_else(|| match path.extension()?.to_str()? {
            "jsonl" | "ndjson" => Some(WriteFormat::Jsonl),
            "csv" => Some(WriteFormat::Csv),
            "parquet" => Some(WriteFormat::Parquet),
            _ => None,
        });
        let Some(format) = format else {
            let message = format!("the name `{}` does not tell a format", self.path);
            let help = "end it in `.jsonl`, `.csv` or `.parquet`, or give `format`".to_owned();
            diagnostics.error(&["write", "path"], Code::MissingKey, message, Some(help));
            return None;
        };
        if let Some(field) = input.fields().iter().find(|field| field.data_type().is_nested())
            && format == WriteFormat::Csv
        {
            let message = format!("the column `{}` is nested, which CSV cannot hold", field.name());
            let help = "write `jsonl` or `parquet`, or select plain columns first".to_owned();
            diagnostics.error(&["write"], Code::ColumnType, message, Some(help));
            return None;
        }
        components.set_settings(self);
        let schema = schema();
        let plan = WritePlan { from, path, format, schema };
        Some(Preparation::exporting(Arc::clone(&plan.schema), plan).expecting(1))
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("path", DataType::Utf8, false),
        Field::new("rows", DataType::Int64, false),
        Field::new("bytes", DataType::Int64, false),
        Field::new("sha256", DataType::Utf8, false),
    ]))
}

/// Writes the file. Blocking.
fn export(
    plan: &WritePlan,
    table: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, StageError>>,
) -> Result<RecordBatch, StageError> {
    let failed = |source| StageError::Write { path: plan.path.display().to_string(), source };
    let mut replacement = Replacement::of(&plan.path)?;
    let mut rows = 0;
    {
        let out = BufWriter::new(replacement.file());
        let counted =
            batches.inspect(|batch| rows += batch.as_ref().map_or(0, RecordBatch::num_rows));
        encode(plan.format, table, out, counted)?;
    }
    let (sha256, bytes) = digest(replacement.reopen()?).map_err(failed)?;
    replacement.commit()?;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![plan.path.display().to_string()])),
        Arc::new(Int64Array::from(vec![rows as i64])),
        Arc::new(Int64Array::from(vec![bytes as i64])),
        Arc::new(StringArray::from(vec![sha256.to_string()])),
    ];
    Ok(RecordBatch::try_new(Arc::clone(&plan.schema), columns)?)
}

fn encode(
    format: WriteFormat,
    table: &SchemaRef,
    mut out: impl io::Write + Send,
    batches: impl Iterator<Item = Result<RecordBatch, StageError>>,
) -> Result<(), StageError> {
    match format {
        WriteFormat::Jsonl => {
            let mut writer = arrow::json::WriterBuilder::new()
                .with_explicit_nulls(true)
                .build::<_, arrow::json::writer::LineDelimited>(&mut out);
            for batch in batches {
                writer.write(&batch?)?;
            }
            writer.finish()?;
        }
        WriteFormat::Csv => {
            let mut writer = arrow::csv::WriterBuilder::new().with_header(true).build(&mut out);
            writer.write(&RecordBatch::new_empty(Arc::clone(table)))?;
            for batch in batches {
                writer.write(&batch?)?;
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

fn digest(file: File) -> io::Result<(Digest, u64)> {
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
