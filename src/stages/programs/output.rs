//! Tables on their way back from a program: bytes to rows of the declared columns, and to error rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options, filter};
use arrow::datatypes::{DataType, SchemaRef};
use indexmap::IndexMap;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proofmill_base::clock::Clock;
use proofmill_base::suggest;
use proofmill_files::{
    ColumnMismatch, DeclaredRows, ERROR_FIELD, ErrorClass, ErrorRow, Fault, RECORD_BYTES_MAX,
    declared_schema, error_batch, mismatches,
};
use proofmill_pipeline::kinds::OnError;
use proofmill_pipeline::kinds::command::OutputColumn;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::stages::diagnostics::mismatch;
use crate::stages::error::StageError;
use crate::stages::gate::Gate;
use crate::stages::programs::arrow_stream::ArrowStream;
use crate::stages::sink::{Computed, PartSink, Sink};
use crate::stages::tables::outside;
use crate::stages::tables::rows::objects;

/// Rows that are written at once.
const BATCH_ROWS: usize = 8192;
/// Text of the rows that are written at once.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// Bytes that are read from a pipe at once.
const READ_BYTES: usize = 256 << 10;
/// Batches between the thread that reads a Parquet file and the task that writes the table.
const BATCHES_QUEUED_MAX: usize = 4;
/// Error rows that are kept.
const ERROR_ROWS_MAX: usize = 100_000;
/// Error rows that a message shows.
const ERRORS_SHOWN: usize = 3;
/// Characters of a row that an error row keeps.
const RAW_CHARS_MAX: usize = 2000;
/// How long a pipe may be silent after its program has ended, while something else holds it open.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Whether the program has ended, so that its pipes soon have to.
#[derive(Debug, Clone)]
pub struct ProgramEnd {
    pub token: CancellationToken,
    pub clock: Arc<dyn Clock>,
}

impl ProgramEnd {
    /// Waits until the program has ended and a grace has passed.
    pub async fn and_silent(&self) {
        self.token.cancelled().await;
        self.clock.sleep(SILENCE_MAX).await;
    }
}

/// What one read of a pipe gave.
pub enum Read {
    Bytes,
    End,
    /// The program has ended, and something that it started holds the pipe open.
    Held,
}

/// Appends what a pipe has to `buffer`.
pub async fn read(
    pipe: &mut pipe::Receiver,
    buffer: &mut Vec<u8>,
    ended: &ProgramEnd,
) -> Result<Read, StageError> {
    buffer.reserve(READ_BYTES);
    tokio::select! {
        read = pipe.read_buf(buffer) => match read {
            Ok(0) => Ok(Read::End),
            Ok(_) => Ok(Read::Bytes),
            Err(error) => Err(StageError::Task(format!("a pipe of the program: {error}"))),
        },
        () = ended.and_silent() => Ok(Read::Held),
    }
}

/// Takes what a program writes.
pub struct ProgramOutput<'a> {
    name: &'a str,
    columns: &'a IndexMap<String, OutputColumn>,
    schema: SchemaRef,
    gate: Gate,
    sink: &'a Sink,
    part: PartSink<'a>,
    rows: u64,
    errors: Vec<ErrorRow>,
    /// What is missing at its end; reported only if the program itself did not fail.
    unfinished: Option<String>,
}

impl<'a> ProgramOutput<'a> {
    /// Nothing yet. `name` is what messages call the program.
    pub fn new(
        name: &'a str,
        columns: &'a IndexMap<String, OutputColumn>,
        gate: Gate,
        sink: &'a Sink,
    ) -> Self {
        let schema = declared_schema(columns);
        let (part, errors) = (sink.part(0, 1), Vec::new());
        Self { name, columns, schema, gate, sink, part, rows: 0, errors, unfinished: None }
    }

    /// Takes lines of JSON.
    pub async fn lines(
        &mut self,
        pipe: &mut pipe::Receiver,
        ended: &ProgramEnd,
    ) -> Result<(), StageError> {
        let mut rows = DeclaredRows::new(self.columns);
        let (mut buffer, mut number, mut batch_bytes) = (Vec::new(), 0, 0);
        // Bytes of a line without an end, which are not searched again.
        let mut searched = 0;
        loop {
            let read = read(pipe, &mut buffer, ended).await?;
            let mut start = 0;
            while let Some(found) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let end = searched + found;
                number += 1;
                batch_bytes += end - start;
                if let Err(error) = rows.push(number, &buffer[start..end])
                    && self.note(*error)
                {
                    self.rows += rows.rows() as u64;
                    return Ok(());
                }
                start = end + 1;
                searched = start;
                if rows.rows() >= BATCH_ROWS || batch_bytes >= BATCH_BYTES_MAX {
                    self.write(rows.finish()).await?;
                    batch_bytes = 0;
                }
            }
            buffer.drain(..start);
            searched = buffer.len();
            if buffer.len() > RECORD_BYTES_MAX {
                let message =
                    format!("line {} is longer than {} MiB", number + 1, RECORD_BYTES_MAX >> 20);
                return Err(self.wrong(message, "write one JSON object per line"));
            }
            match read {
                Read::Bytes => {}
                Read::Held => return Err(self.held()),
                Read::End => break,
            }
        }
        if !buffer.is_empty() {
            self.unfinished = Some(format!("ends within line {}", number + 1));
        }
        self.write(rows.finish()).await
    }

    /// Takes a stream of Arrow IPC.
    pub async fn stream(
        &mut self,
        pipe: &mut pipe::Receiver,
        ended: &ProgramEnd,
    ) -> Result<(), StageError> {
        let (mut stream, mut buffer) = (ArrowStream::default(), Vec::new());
        loop {
            let read = read(pipe, &mut buffer, ended).await?;
            stream.push(&buffer);
            buffer.clear();
            loop {
                let next = stream.next().map_err(|error| {
                    self.wrong(error.to_string(), "write one Arrow IPC stream, and nothing else")
                })?;
                let Some(batch) = next else { break };
                if self.batch(batch).await? {
                    return Ok(());
                }
            }
            match read {
                Read::Bytes => {}
                Read::Held => return Err(self.held()),
                Read::End => break,
            }
        }
        if !stream.is_whole() {
            self.unfinished = Some("ends within an Arrow IPC stream; close the writer".to_owned());
        } else if let Some(schema) = stream.schema() {
            self.positions(&schema)?;
        }
        Ok(())
    }

    /// Takes a Parquet file.
    pub async fn file(&mut self, path: &Path) -> Result<(), StageError> {
        let unreadable = |output: &Self, reason: String| {
            let help = "write the table to the file that `PROOFMILL_OUTPUT` names, and close it";
            output.wrong(format!("is not a readable Parquet file: {reason}"), help)
        };
        let (sender, mut batches) = mpsc::channel(BATCHES_QUEUED_MAX);
        let path = path.to_owned();
        let reader = tokio::task::spawn_blocking(move || -> Result<SchemaRef, String> {
            let file = outside::open(&path).map_err(|error| error.to_string())?;
            let file = ParquetRecordBatchReaderBuilder::try_new(file);
            let file = file.map_err(|error| error.to_string())?;
            let schema = Arc::clone(file.schema());
            let rows =
                file.with_batch_size(BATCH_ROWS).build().map_err(|error| error.to_string())?;
            for batch in rows {
                if sender.blocking_send(batch.map_err(|error| error.to_string())?).is_err() {
                    break;
                }
            }
            Ok(schema)
        });
        while let Some(batch) = batches.recv().await {
            if self.batch(batch).await? {
                return Ok(());
            }
        }
        drop(batches);
        let schema = reader.await.map_err(|error| unreadable(self, error.to_string()))?;
        let schema = schema.map_err(|reason| unreadable(self, reason))?;
        self.positions(&schema)?;
        Ok(())
    }

    /// Takes rows of Arrow; true if no more are needed.
    async fn batch(&mut self, batch: RecordBatch) -> Result<bool, StageError> {
        let positions = self.positions(&batch.schema())?;
        let mut failed: BTreeMap<usize, Fault> = BTreeMap::new();
        if let Some(errors) = batch.column_by_name(ERROR_FIELD) {
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            let errors = cast_with_options(errors, &DataType::Utf8, &strict)?;
            let errors = errors.as_string::<i32>();
            for row in (0..batch.num_rows()).filter(|row| errors.is_valid(*row)) {
                let message = errors.value(row).to_owned();
                failed.insert(row, Fault { class: ErrorClass::Program, column: None, message });
            }
        }
        let safe = CastOptions { safe: true, ..CastOptions::default() };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(positions.len());
        for (position, field) in positions.into_iter().zip(self.schema.fields()) {
            let (value, name) = (batch.column(position), field.name());
            let column = cast_with_options(value, field.data_type(), &safe)?;
            for ColumnMismatch { row, fault, .. } in mismatches((name, name), value, &column)? {
                failed.entry(row).or_insert(fault);
            }
            columns.push(column);
        }
        let first = self.rows + self.errors.len() as u64;
        for (row, Fault { class, column, message }) in &failed {
            let values = objects(&[batch.slice(*row, 1)]).pop().unwrap_or_default();
            let source = values.get("row_id").and_then(|id| id.as_str()).unwrap_or_default();
            let raw = serde_json::Value::from(values.clone()).to_string();
            let enough = self.note(ErrorRow {
                source: source.to_owned(),
                row: first + *row as u64 + 1,
                line: None,
                column: column.clone(),
                class: *class,
                message: message.clone(),
                raw: raw.chars().take(RAW_CHARS_MAX).collect(),
            });
            if enough {
                return Ok(true);
            }
        }
        for (column, field) in columns.iter().zip(self.schema.fields()) {
            let missing = |row: &usize| column.is_null(*row) && !failed.contains_key(row);
            if !field.is_nullable()
                && let Some(row) = (0..column.len()).find(missing)
            {
                let message =
                    format!("column `{}` is null in row {}", field.name(), first + row as u64 + 1);
                return Err(
                    self.wrong(message, "declare it with `nullable: true` if it may be NULL")
                );
            }
        }
        let good: BooleanArray =
            (0..batch.num_rows()).map(|row| Some(!failed.contains_key(&row))).collect();
        let kept = good.true_count();
        if !failed.is_empty() {
            columns =
                columns.iter().map(|column| filter(column, &good)).collect::<Result<_, _>>()?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(kept));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.write(rows).await?;
        Ok(false)
    }

    /// Where each declared column stands in `found`; an error unless all are there and nothing else is.
    fn positions(&self, found: &SchemaRef) -> Result<Vec<usize>, StageError> {
        let names: Vec<&str> = found.fields().iter().map(|field| field.name().as_str()).collect();
        let position = |name: &str| names.iter().position(|found| *found == name);
        for (i, name) in names.iter().enumerate() {
            if *name != ERROR_FIELD && !self.columns.contains_key(*name) {
                let help = suggest::help(name, self.columns.keys().map(String::as_str));
                let message = format!("column `{name}` is not among `columns`");
                return Err(self.wrong(message, &help.unwrap_or_else(|| "declare it".to_owned())));
            }
            if names[..i].contains(name) {
                return Err(self.wrong(format!("has two columns `{name}`"), "write each once"));
            }
        }
        let column = |field: &Arc<arrow::datatypes::Field>| {
            let Some(at) = position(field.name()) else {
                let message = format!("has no column `{}`", field.name());
                return Err(self.wrong(message, "write all columns that `columns` declares"));
            };
            let kind = found.field(at).data_type();
            if fits(field.data_type(), kind) {
                return Ok(at);
            }
            let what = format!("column `{}`", field.name());
            let message = mismatch(&what, &field.data_type().to_string(), kind);
            Err(self.wrong(message, "write that type, or declare another in `columns`"))
        };
        self.schema.fields().iter().map(column).collect()
    }

    async fn write(&mut self, rows: RecordBatch) -> Result<(), StageError> {
        self.rows += rows.num_rows() as u64;
        self.part.write(rows).await
    }

    /// Keeps an error row; true if no more are needed to know that the stage fails.
    fn note(&mut self, error: ErrorRow) -> bool {
        self.errors.push(error);
        self.gate.on_error == OnError::Fail || self.errors.len() > ERROR_ROWS_MAX
    }

    /// The table, if it is whole and not too many rows failed. Their messages are shown as `covered` gives them.
    pub async fn finish(
        mut self,
        covered: impl Fn(&str) -> String,
    ) -> Result<Computed, StageError> {
        for error in &mut self.errors {
            error.message = covered(&error.message);
        }
        let (failed, all) = (self.errors.len() as u64, self.errors.len() as u64 + self.rows);
        if !self.gate.passes(failed, self.rows) {
            let shown = self.errors.iter().take(ERRORS_SHOWN).map(|error| {
                let which = match (error.source.as_str(), error.line) {
                    ("", Some(line)) => format!("line {line}"),
                    ("", None) => format!("row {}", error.row),
                    (source, _) => source.to_owned(),
                };
                format!("\n  {which}: {}", error.message)
            });
            let more = match self.errors.len().saturating_sub(ERRORS_SHOWN) {
                0 => String::new(),
                more => format!("\n  and {more} more"),
            };
            let rows = if failed == 1 { "row" } else { "rows" };
            return Err(StageError::Data {
                message: format!(
                    "{failed} {rows} of {all} from `{}` failed:{}{more}",
                    self.name,
                    shown.collect::<String>()
                ),
                help: "fix the program, or accept a share of such rows with `max_error_rate`"
                    .to_owned(),
            });
        }
        if let Some(reason) = &self.unfinished {
            return Err(self.wrong(reason.clone(), "write whole rows; nothing was published"));
        }
        let mut computed = Computed::of([self.part.finish().await?]);
        if failed > 0 {
            computed.errors.push(self.sink.errors(0, &error_batch(&self.errors)).await?);
        }
        Ok(computed)
    }

    /// True if reading stopped before the end because enough is known.
    pub fn is_cut(&self) -> bool {
        !self.errors.is_empty() && self.gate.on_error == OnError::Fail
            || self.errors.len() > ERROR_ROWS_MAX
    }

    fn held(&self) -> StageError {
        StageError::Data {
            message: format!(
                "`{}` has ended, but a process that it started holds its standard output open",
                self.name
            ),
            help: "wait for it in the program, or redirect its standard output".to_owned(),
        }
    }

    fn wrong(&self, message: String, help: &str) -> StageError {
        StageError::Data {
            message: format!("output of `{}`: {message}", self.name),
            help: help.to_owned(),
        }
    }
}

/// Whether values of `found` can become those of `declared` without guessing.
fn fits(declared: &DataType, found: &DataType) -> bool {
    match (declared, found) {
        (_, DataType::Null) => true,
        (_, DataType::Dictionary(_, value)) => fits(declared, value),
        (DataType::Utf8, found) => found.is_string(),
        (DataType::Int64, found) => found.is_integer(),
        (DataType::Float64, found) => found.is_floating() || found.is_integer(),
        (DataType::Boolean, found) => *found == DataType::Boolean,
        (
            DataType::List(item),
            DataType::List(found) | DataType::LargeList(found) | DataType::FixedSizeList(found, _),
        ) => fits(item.data_type(), found.data_type()),
        (_, _) => false,
    }
}
