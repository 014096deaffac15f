//! The tables that a store has of itself, and their rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, Result};
use proofmill_base::ids::{PipelineName, RunId};
use proofmill_catalog::audit::entry::AuditEvent;
use proofmill_catalog::audit::log::AuditLog;
use proofmill_catalog::summary::{RunSummary, ended, list};
use proofmill_schedule::log::{ScheduleEntry, ScheduleLog, names};
use proofmill_schedule::state::{ScheduleEvent, Why};
use proofmill_store::{StageStatus, Store};
use proofmill_udfs::stats;

use crate::relay::worker::WorkerProgress;
use crate::relay::workforce::{WorkerLine, workforce};
use crate::run::bind::tables;
use crate::session::{Content, Engine, StageTable, Stored};
use crate::stages::error::StageError;
use crate::stages::queries::sql_kind::quoted;
use crate::stages::tables::metrics::{MetricPoint, measured};
use crate::stages::tables::query::TextsAndNumbers;
use crate::system::rows::ColumnType::{Count, Number, Text, Time};
use crate::system::rows::{Cell, Columns, batch, schema};

/// What stands before the names of these tables.
const PREFIX: &str = "system.";
/// How a run is called whose records cannot be read.
const UNREADABLE: &str = "unreadable";

/// A table that a store has of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemTable {
    Runs,
    Stages,
    Metrics,
    Errors,
    Nights,
    Verdicts,
    AskedAgain,
    Workers,
}

impl SystemTable {
    pub const ALL: [Self; 8] = [
        Self::Runs,
        Self::Stages,
        Self::Metrics,
        Self::Errors,
        Self::Nights,
        Self::Verdicts,
        Self::AskedAgain,
        Self::Workers,
    ];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "system.runs",
            Self::Stages => "system.stages",
            Self::Metrics => "system.metrics",
            Self::Errors => "system.errors",
            Self::Nights => "system.nights",
            Self::Verdicts => "system.verdicts",
            Self::AskedAgain => "system.asked_again",
            Self::Workers => "system.workers",
        }
    }

    /// The one that SQL calls so; `None` for a table of a run.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Whether a name is one of such a table, or would be.
    pub fn is_prefixed(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    fn columns(self) -> Columns {
        match self {
            Self::Runs => &[
                ("run", Text),
                ("pipeline", Text),
                ("started_at", Time),
                ("how", Text),
                ("seconds", Number),
                ("stages", Count),
                ("computed", Count),
                ("cached", Count),
                ("failed", Count),
                ("error_rows", Count),
                ("requests", Count),
                ("params", Text),
                ("manifest", Text),
            ],
            Self::Stages => &[
                ("run", Text),
                ("pipeline", Text),
                ("stage", Text),
                ("kind", Text),
                ("status", Text),
                ("rows", Count),
                ("bytes", Count),
                ("error_rows", Count),
                ("seconds", Number),
                ("fingerprint", Text),
            ],
            Self::Metrics => &[
                ("run", Text),
                ("pipeline", Text),
                ("started_at", Time),
                ("stage", Text),
                ("metric", Text),
                ("of", Text),
                ("value", Number),
                ("ci_low", Number),
                ("ci_high", Number),
            ],
            Self::Errors => &[
                ("run", Text),
                ("pipeline", Text),
                ("stage", Text),
                ("source", Text),
                ("class", Text),
                ("message", Text),
            ],
            Self::Nights => &[
                ("schedule", Text),
                ("planned", Time),
                ("run", Text),
                ("why", Text),
                ("how", Text),
                ("verdict", Text),
                ("requests", Count),
                ("ended_at", Time),
            ],
            Self::Verdicts => &[
                ("run", Text),
                ("pipeline", Text),
                ("gate", Text),
                ("baseline", Text),
                ("verdict", Text),
                ("judged_at", Time),
                ("sha256", Text),
            ],
            Self::AskedAgain => &[
                ("schedule", Text),
                ("planned", Time),
                ("run", Text),
                ("stage", Text),
                ("models", Text),
                ("by", Text),
                ("again", Count),
                ("differ", Count),
                ("failed", Count),
                ("low", Number),
                ("high", Number),
                ("reported", Text),
                ("reported_before", Text),
                ("examples", Text),
            ],
            Self::Workers => &[
                ("worker", Text),
                ("life", Text),
                ("models", Text),
                ("held", Count),
                ("answered", Count),
                ("without_answer", Count),
                ("per_minute", Count),
            ],
        }
    }

    /// Whether its rows come from the records of runs.
    fn is_of_runs(self) -> bool {
        matches!(self, Self::Runs | Self::Stages | Self::Metrics | Self::Errors)
    }
}

/// A run, or one whose records cannot be read.
type Listed = (RunId, Result<RunSummary>);

/// These tables of a store, filled.
///
/// # Errors
///
/// If the store fails, or a log or a table of it is damaged.
pub async fn system_tables(
    wanted: &BTreeSet<SystemTable>,
    store: &Store,
    engine: &Engine,
) -> Result<BTreeMap<SystemTable, Arc<StageTable>>> {
    let runs = match wanted.iter().any(|table| table.is_of_runs()) {
        true => list(store, usize::MAX, None, |_| true).await?.runs,
        false => Vec::new(),
    };
    let mut tables = BTreeMap::new();
    for table in wanted {
        let rows = match table {
            SystemTable::Runs => runs.iter().map(run).collect(),
            SystemTable::Stages => readable(&runs).flat_map(stages).collect(),
            SystemTable::Metrics => readable(&runs).flat_map(metrics).collect(),
            SystemTable::Errors => errors(&runs, store, engine).await?,
            SystemTable::Nights => nights(store).await?,
            SystemTable::Verdicts => verdicts(store).await?,
            SystemTable::AskedAgain => sampled(store).await?,
            SystemTable::Workers => workforce(store).await?.iter().map(worker).collect(),
        };
        tables.insert(*table, filled(*table, &rows)?);
    }
    Ok(tables)
}

fn filled(which: SystemTable, rows: &[Vec<Cell>]) -> Result<Arc<StageTable>> {
    let batch = batch(which.columns(), rows).map_err(StageError::from)?;
    let table = StageTable::new(which.name(), schema(which.columns()));
    table.fill(Stored {
        rows: rows.len() as u64,
        content: Content::Memory(vec![batch]),
        files: Vec::new(),
        snapshot: String::new(),
        digest: Digest::of(which.name().as_bytes()),
    });
    Ok(Arc::new(table))
}

fn readable(runs: &[Listed]) -> impl Iterator<Item = &RunSummary> {
    runs.iter().filter_map(|(_, run)| run.as_ref().ok())
}

fn run((id, run): &Listed) -> Vec<Cell> {
    let Ok(run) = run else {
        return vec![Cell::text(id), Cell::Null, Cell::Null, Cell::text(UNREADABLE)];
    };
    let of = |status| run.stages.iter().filter(|stage| stage.status == status).count();
    let requests: u64 = run.models.values().map(|usage| usage.requests).sum();
    vec![
        Cell::text(&run.run),
        Cell::text(&run.pipeline),
        Cell::some(run.started_at, Cell::Time),
        Cell::text(ended(run)),
        Cell::some(run.seconds, Cell::Number),
        Cell::count(run.stages_all),
        Cell::count(of(StageStatus::Computed)),
        Cell::count(of(StageStatus::Cached)),
        Cell::count(run.failed.len()),
        Cell::count(run.stages.iter().map(|stage| stage.error_rows).sum::<u64>()),
        Cell::count(requests),
        Cell::text(serde_json::json!(run.params)),
        Cell::some(run.manifest, Cell::text),
    ]
}

fn stages(run: &RunSummary) -> Vec<Vec<Cell>> {
    let failed = run.failed.iter().map(|failure| {
        let cells = [Cell::text(&run.run), Cell::text(&run.pipeline), Cell::text(&failure.stage)];
        [&cells[..], &[Cell::Null, Cell::text("failed")]].concat()
    });
    let ended = run.stages.iter().map(|stage| {
        let status = match stage.status {
            StageStatus::Computed => "computed",
            StageStatus::Cached => "cached",
            StageStatus::Failed => "failed",
            StageStatus::Skipped => "skipped",
        };
        vec![
            Cell::text(&run.run),
            Cell::text(&run.pipeline),
            Cell::text(&stage.stage),
            Cell::text(&stage.kind),
            Cell::text(status),
            Cell::count(stage.rows),
            Cell::count(stage.bytes),
            Cell::count(stage.error_rows),
            Cell::Number(stage.wall_ms as f64 / 1000.0),
            Cell::some(stage.fingerprint, Cell::text),
        ]
    });
    ended.chain(failed).collect()
}

fn metrics(run: &RunSummary) -> Vec<Vec<Cell>> {
    let row = |it: MetricPoint| {
        vec![
            Cell::text(&it.run),
            Cell::text(&run.pipeline),
            Cell::Time(it.started_at),
            Cell::Text(it.stage),
            Cell::Text(it.metric),
            Cell::Text(it.of),
            Cell::some(it.value, Cell::Number),
            Cell::some(it.ci_low, Cell::Number),
            Cell::some(it.ci_high, Cell::Number),
        ]
    };
    measured(run).into_iter().map(row).collect()
}

fn worker(it: &WorkerLine) -> Vec<Cell> {
    let WorkerProgress { models, held, answered, refused, per_minute } = &it.progress;
    let texts = [it.worker.as_str(), it.life(), &models.join(", ")].map(Cell::text);
    let counts = [held, answered, refused, per_minute].map(|number| Cell::count(*number));
    texts.into_iter().chain(counts).collect()
}

/// The failed rows of all runs.
async fn errors(runs: &[Listed], store: &Store, engine: &Engine) -> Result<Vec<Vec<Cell>>> {
    let mut rows = Vec::new();
    for run in readable(runs) {
        for stage in run.tables().filter(|stage| stage.error_rows > 0) {
            let Some((_, table)) = tables(store, stage).await?.into_iter().nth(1) else {
                continue;
            };
            // What stages say of their failed rows differs.
            let has = |name: &str| table.schema().column_with_name(name).is_some();
            let column = |name| if has(name) { quoted(name) } else { "NULL".to_owned() };
            let columns = ["source", "class", "message"].map(column).join(", ");
            let query = format!("SELECT {columns} FROM e");
            let found = TextsAndNumbers::of(&query, "e", &table, 3, engine).await?;
            for row in 0..found.rows() {
                let head = [&run.run.to_string(), &run.pipeline, &stage.stage.to_string()];
                let texts = found.text(row, 0..3).into_iter();
                let cells = texts.map(|text| Cell::some(text, Cell::Text));
                rows.push(head.map(Cell::text).into_iter().chain(cells).collect());
            }
        }
    }
    Ok(rows)
}

/// The entries of schedules that end a run, each with the schedule; of a schedule that cannot be read, its name alone.
async fn ends(store: &Store) -> Result<Vec<(PipelineName, Option<ScheduleEntry>)>> {
    let mut all = Vec::new();
    for name in names(store).await? {
        let is_end = |event: &ScheduleEvent| matches!(event, ScheduleEvent::Ended { .. });
        let log = ScheduleLog::of(store, &name);
        match log.latest(usize::MAX, |entry| is_end(&entry.event)).await {
            Ok(ends) => all.extend(ends.into_iter().map(|entry| (name.clone(), Some(entry)))),
            // One schedule that cannot be read hides no other.
            Err(error) if error.is_broken() => all.push((name, None)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

/// The runs of schedules that have ended.
async fn nights(store: &Store) -> Result<Vec<Vec<Cell>>> {
    let row = |(name, entry): (PipelineName, Option<ScheduleEntry>)| {
        let mut row = vec![Cell::text(&name)];
        let Some(ScheduleEntry { event, before, t_utc, .. }) = entry else {
            row.resize_with(4, || Cell::Null);
            row.push(Cell::text(UNREADABLE));
            row.resize_with(SystemTable::Nights.columns().len(), || Cell::Null);
            return Some(row);
        };
        let ScheduleEvent::Ended { run, how, verdict, requests, .. } = event else { return None };
        let why = |why: Why| match why {
            Why::Due => "due",
            Why::Triggered => "triggered",
            Why::Backfilled => "backfilled",
        };
        row.extend([
            Cell::some(before.open.as_ref().map(|fired| fired.planned), Cell::Time),
            Cell::text(run),
            Cell::some(before.open.as_ref().map(|fired| why(fired.why)), Cell::text),
            Cell::text(how.word()),
            Cell::some(verdict.map(|verdict| verdict.word()), Cell::text),
            Cell::some(requests, Cell::count),
            Cell::Time(t_utc),
        ]);
        Some(row)
    };
    Ok(ends(store).await?.into_iter().filter_map(row).collect())
}

/// The samples of answers that were requested or computed once more, stage by stage.
async fn sampled(store: &Store) -> Result<Vec<Vec<Cell>>> {
    let mut rows = Vec::new();
    for (name, entry) in ends(store).await? {
        let Some(ScheduleEntry { event, before, .. }) = entry else { continue };
        let ScheduleEvent::Ended { run, sampled, .. } = event else { continue };
        let planned = before.open.as_ref().map(|fired| fired.planned);
        for it in sampled {
            let share = stats::wilson(it.differ, it.again, 0.95).ok();
            let examples = serde_json::to_string(&it.examples).unwrap_or_default();
            rows.push(vec![
                Cell::text(&name),
                Cell::some(planned, Cell::Time),
                Cell::text(&run),
                Cell::text(&it.stage),
                Cell::text(it.models.join(", ")),
                Cell::text(if it.is_local { "this machine" } else { "endpoint" }),
                Cell::count(it.again),
                Cell::count(it.differ),
                Cell::count(it.failed),
                Cell::some(share.as_ref().map(|it| it.low), Cell::Number),
                Cell::some(share.as_ref().map(|it| it.high), Cell::Number),
                Cell::text(it.reported.join(", ")),
                Cell::text(it.reported_before.join(", ")),
                Cell::text(examples),
            ]);
        }
    }
    Ok(rows)
}

/// The verdicts of gates, the latest first.
async fn verdicts(store: &Store) -> Result<Vec<Vec<Cell>>> {
    let mut backwards = AuditLog::of(store).backwards();
    let mut rows = Vec::new();
    loop {
        let window = backwards.next().await.map_err(Error::from)?;
        if window.is_empty() {
            return Ok(rows);
        }
        for stored in window {
            let AuditEvent::Judged(judged) = &stored.entry.event else { continue };
            rows.push(vec![
                Cell::text(&judged.candidate),
                Cell::text(&judged.pipeline),
                Cell::text(&judged.gate),
                Cell::some(judged.baseline.as_ref(), Cell::text),
                Cell::text(judged.word.word()),
                Cell::Time(stored.entry.t_utc),
                Cell::text(judged.verdict.sha256),
            ]);
        }
    }
}
