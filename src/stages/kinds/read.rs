//! `read`: a table from files, or of a past run. Records that do not parse become error rows.

mod limit;
mod stored;

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::session::engine::BATCH_ROWS;
use crate::stages::error::StageError;
use crate::stages::fingerprint::Counted;
use crate::stages::gate::Gate;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::kinds::read::limit::FirstRows;
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::sink::{Computed, Sink, Written};
use proofmill_base::styled::printable;
use proofmill_files::{Chunk, ErrorRow, Source};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::OnError;
use proofmill_pipeline::kinds::read::Read;

/// Chunks between the thread that reads and the task that writes.
const CHUNKS_QUEUED_MAX: usize = 4;
/// Error rows that a message shows.
const ERRORS_SHOWN: usize = 3;
/// Error rows that are kept; a source with more is not worth auditing row by row.
const ERROR_ROWS_MAX: usize = 100_000;

/// The source files, as they were when the pipeline was loaded, and how many of their rows are taken.
#[derive(Debug)]
struct ReadPlan {
    source: Arc<Source>,
    limit: Option<u64>,
}

#[async_trait]
impl StagePlan for ReadPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let common = execution.common();
        let cores = execution.engine.limits().cores;
        let pieces = common.partitions.map_or(cores, |n| n as usize);
        compute(&self.source, self.limit, Gate::of(common), pieces, execution.sink).await
    }
}

impl Kind for Read {
    fn traits(&self) -> Traits {
        Traits {
            version: 3,
            rows_can_fail: true,
            has_partitions: true,
            settings: Counted::ByTheKind,
            repeats: Repeats::Set,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        if let (None, Some(run), Some(stage)) = (&self.path, &self.run, &self.stage) {
            return stored::prepare(self, (run, stage), context);
        }
        let Preparing { inputs, components, diagnostics, .. } = context;
        if self.path.is_none() || self.run.is_some() || self.stage.is_some() {
            let message = "give `path`, or `run` and `stage`".to_owned();
            diagnostics.error(&["read"], Code::NotExactlyOne, message, None);
            return None;
        }
        let source = match proofmill_files::open(self) {
            Ok(source) => source,
            Err(error) => {
                let field = error.field();
                let steps: Vec<&str> = ["read"].into_iter().chain(field.split('.')).collect();
                let code = match field.as_str() {
                    "path" => Code::SourceMissing,
                    _ => Code::SourceSchema,
                };
                diagnostics.error(&steps, code, error.message(), error.help());
                return None;
            }
        };
        if source.rows_estimate() == Some(0) {
            let (message, help) = empty(&source);
            diagnostics.warning(&["read", "path"], Code::SourceEmpty, message, Some(help));
        }
        if let Some(name) = comment(&source) {
            let name = printable(&name, false);
            let message = format!("the only column is called `{name}`");
            let help = "if the first line of the file is a comment, remove it".to_owned();
            diagnostics.warning(&["read", "path"], Code::SourceSchema, message, Some(help));
        }
        components.set_settings(&Read { format: Some(source.format()), ..self.clone() });
        // Of this kind both count whatever they are.
        let common = &inputs.stage.spec.common;
        components.set("settings.on_error", format!("{:?}", common.on_error));
        components.set("settings.max_error_rate", common.max_error_rate);
        for (i, file) in source.files().iter().enumerate() {
            components.set(format!("source[{i}].sha256"), file.digest);
        }
        let (schema, rows) = (source.schema(), source.rows_estimate());
        // Whether identities that records bring are different is for a check to say.
        let unique = (!source.has_row_ids()).then_some("row_id");
        let rows = rows.map(|rows| self.limit.map_or(rows, |limit| limit.min(rows)));
        let plan = ReadPlan { source: Arc::new(source), limit: self.limit };
        let preparation = Preparation::new(schema, plan).expecting(rows);
        Some(Preparation { unique, ..preparation })
    }
}

/// What a person should know of a source without any record, and what to do if there must be some.
fn empty(source: &Source) -> (String, String) {
    let message = match source.files() {
        [file] => format!("`{}` has no records: the table is empty", file.path),
        files => format!("none of the {} files has a record: the table is empty", files.len()),
    };
    let help = "if it must not be empty, add the check `rows: { min: 1 }`".to_owned();
    (message, help)
}

/// The name of the only column where it looks like a comment above the names.
fn comment(source: &Source) -> Option<String> {
    let schema = source.schema();
    let mut names =
        schema.fields().iter().map(|field| field.name()).filter(|name| *name != "row_id");
    let only = names.next().filter(|_| names.next().is_none())?;
    only.starts_with('#').then(|| only.clone())
}

/// Reads all files; pieces are read at the same time and stored in order.
pub async fn compute(
    source: &Arc<Source>,
    limit: Option<u64>,
    gate: Gate,
    pieces: usize,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let partitions = source.partitions(pieces);
    let n = partitions.len();
    let reads = partitions.into_iter().enumerate().map(|(i, partition)| {
        let source = Arc::clone(source);
        async move {
            let (sender, mut chunks) = mpsc::channel::<Chunk>(CHUNKS_QUEUED_MAX);
            let reader =
                tokio::task::spawn_blocking(move || {
                    source.read(&partition, BATCH_ROWS, &mut |chunk| match sender
                        .blocking_send(chunk)
                    {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    })
                });
            let mut part = sink.part(i, n);
            let mut limited = limit.map(FirstRows::to);
            let mut errors: Vec<ErrorRow> = Vec::new();
            while let Some(chunk) = chunks.recv().await {
                match (chunk.batch, &mut limited) {
                    (Some(batch), Some(limited)) => limited.add(batch)?,
                    (Some(batch), None) => part.write(batch).await?,
                    (None, _) => {}
                }
                errors.extend(chunk.errors);
                if gate.on_error == OnError::Fail && !errors.is_empty()
                    || errors.len() > ERROR_ROWS_MAX
                {
                    break;
                }
            }
            drop(chunks);
            let summary = reader.await.map_err(|error| StageError::Task(error.to_string()))??;
            Ok::<_, StageError>((part.finish().await?, limited, errors, summary))
        }
    });
    let done = futures::future::try_join_all(reads).await?;
    let mut errors = Vec::new();
    let mut notes = source.notes().to_vec();
    let mut written: Vec<Written> = Vec::new();
    let mut limited: Option<FirstRows> = None;
    for (part, of_part, failed, summary) in done {
        written.push(part);
        limited = match (limited, of_part) {
            (Some(mut all), Some(one)) => {
                all.append(one)?;
                Some(all)
            }
            (all, one) => all.or(one),
        };
        errors.extend(failed);
        notes.extend(summary.ignored.iter().map(|(field, times)| {
            format!("the field `{field}` has no column and was ignored in {times} records")
        }));
    }
    let seen = limited.as_ref().map(|limited| limited.seen);
    notes.extend(limited.as_ref().and_then(FirstRows::note));
    let mut computed = match limited.map(FirstRows::finish).transpose()?.flatten() {
        Some(rows) => sink.table(rows).await?,
        None => Computed::of(written),
    };
    if computed.parts.is_empty() {
        notes.push(match errors.len() {
            0 => "the source has no records: the table is empty".to_owned(),
            failed => format!("none of {failed} records can be read: the table is empty"),
        });
    }
    computed.notes = notes;
    if !errors.is_empty() {
        let rows = || computed.parts.iter().map(|part| part.rows).sum();
        check(&errors, seen.unwrap_or_else(rows), gate)?;
        computed.errors.push(sink.errors(0, &proofmill_files::error_batch(&errors)).await?);
    }
    Ok(computed)
}

/// Fails if there are more error rows than the settings accept.
fn check(errors: &[ErrorRow], rows: u64, gate: Gate) -> Result<(), StageError> {
    let failed = errors.len() as u64;
    if gate.passes(failed, rows) {
        return Ok(());
    }
    let shown: Vec<_> = errors
        .iter()
        .take(ERRORS_SHOWN)
        .map(|row| {
            let line =
                row.line.map_or_else(|| format!("record {}", row.row), |line| line.to_string());
            format!("\n  {}:{line}: {}", row.source, row.message)
        })
        .collect();
    let more = errors.len().saturating_sub(ERRORS_SHOWN);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    Err(StageError::Data {
        message: format!(
            "{failed} of {} records cannot be read:{}{more}",
            failed + rows,
            shown.concat()
        ),
        help: "fix the source, declare `columns`, or accept a share with `max_error_rate`"
            .to_owned(),
    })
}
