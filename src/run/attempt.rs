//! One stage of a run, from its inputs to its published record.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use proofmill_udfs::model::{Counters, Counts};
use tracing::{Instrument, error_span};

use crate::graph::Role;
use crate::run::bind::{bind, fill};
use crate::run::context::Context;
use crate::run::notice::Notice;
use crate::run::permanent_failures::permanent_failures;
use crate::run::planned::PlannedStage;
use crate::run::replay::{Replayed, compare as compare_again};
use crate::session::StageTable;
use crate::stages::checks::{self, Verdict};
use crate::stages::error::{Rejected, StageError};
use crate::stages::kind::Repeats;
use crate::stages::kinds::behaviour;
use crate::stages::plan::{Execution, PreparedStage, spawn};
use crate::stages::progress::Progress;
use crate::stages::queries::second_plan::{Compared, Disagreement, compare};
use crate::stages::sink::{Computed, Permit, Sink};
use crate::stages::tables::rows;
use datafusion::catalog::TableProvider;
use proofmill_base::digest::Digest;
use proofmill_base::error::Error;
use proofmill_base::ids::StageName;
use proofmill_base::retry::RetryPolicy;
use proofmill_store::{
    ARTIFACT_VERSION, Artifact, Attempt, Extensions, StageOutcome, StageStatus, StageUsage, Stored,
    columns_of, keep_aside, publish, replace, schema_to_hex,
};

/// How long a run that is stopped waits for answers under way: longer than the ledger waits with what came, and shorter
/// than what schedulers leave between SIGTERM and SIGKILL.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Checks that a cached stage passed under another definition are run again, and a query is computed by a second plan
/// on request; nothing else is.
pub async fn confirm(context: &Context, name: &StageName) -> Result<(), StageError> {
    let stage = &context.prepared.stages[name];
    bind(context, name).await?;
    if context.verify && stage.query.is_some() {
        for input in &stage.stage.inputs {
            bind(context, &input.stage).await?;
        }
        second_plan(context, name, &stage.table).await?;
    }
    bind_checked(context, stage).await?;
    let verdicts =
        checks::run(&stage.stage, &stage.table, &context.prepared, &context.engine).await?;
    judge(context, name, &verdicts, context.plan.stages[name].action.stored().cloned())
}

/// A stage that was computed.
pub struct Done {
    pub outcome: StageOutcome,
    pub notes: Vec<String>,
    /// Requests to models; `None` if there were none.
    pub requests: Option<Counts>,
}

/// Runs the stage, again after errors of the store that may pass.
pub async fn run(context: &Arc<Context>, name: &StageName) -> Result<Done, StageError> {
    let stage = &context.prepared.stages[name];
    for input in &stage.stage.inputs {
        bind(context, &input.stage).await?;
    }
    let rng = Arc::clone(context.store.rng());
    let mut delays = RetryPolicy::default().delays(rng.as_ref());
    let mut attempts: u32 = 0;
    loop {
        attempts += 1;
        let span = error_span!("attempt", attempt = attempts);
        let error = match once(context, stage, name).instrument(span.clone()).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if let Some(original) = original(context, name)
            && !error.is_transient()
            && !context.stop.is_cancelled()
        {
            let differs = Replayed::Differs(format!("it failed: {error}"));
            return given_back(context, stage, name, original, differs).await;
        }
        let Some(delay) = delays.next().filter(|_| error.is_transient()) else { return Err(error) };
        let message = error.to_string();
        let notice = Notice::StageRetried { stage: name, message: &message, delay };
        span.in_scope(|| context.observer.notice(&notice));
        context.store.clock().sleep(delay).await;
    }
}

async fn once(
    context: &Arc<Context>,
    stage: &PreparedStage,
    name: &StageName,
) -> Result<Done, StageError> {
    let clock = context.store.clock();
    let plan = &context.plan.stages[name];
    let progress = Arc::new(Progress::default());
    context.observer.notice(&Notice::StageQueued { stage: name });
    let permits = Arc::clone(&context.permits);
    let permit = Permit::new(permits.acquire_owned().await.map_err(|_| StageError::Stopped)?);
    let started = clock.monotonic();
    // What the source says, or else what the stage gave the last time.
    if let Some(rows) = stage.rows_expected.or(plan.last.as_ref().map(|last| last.record.rows)) {
        progress.expect_rows(rows);
    }
    let notice = Notice::StageStarted { stage: name, progress: Arc::clone(&progress) };
    context.observer.notice(&notice);
    progress.counters().fail_again(permanent_failures(&context.store, plan).await);
    let sink = Sink {
        store: context.store.clone(),
        run: context.run.clone(),
        stage: name.clone(),
        attempt: Attempt::new(context.store.rng().as_ref()),
        schema: stage.table.schema(),
        progress: Arc::clone(&progress),
        permit: permit.clone(),
    };
    // A task of its own: a computation that rarely waits must not keep the clock from being seen.
    let work = {
        let (context, name) = (Arc::clone(context), name.clone());
        spawn(async move {
            let (prepared, engine, cache) = (&context.prepared, &context.engine, &context.cache);
            let stage = &prepared.stages[&name];
            stage.plan.compute(&Execution { stage, prepared, engine, sink: &sink, cache }).await
        })
    };
    let timeout = stage.stage.spec.common.timeout;
    let computed = within(timeout, context, (name, progress.counters()), work).await?;
    permit.release();
    let mut computed = computed;
    let bytes = computed.kept_bytes();
    computed.kept = computed.kept.filter(|_| bytes.is_some_and(|bytes| context.kept.take(bytes)));
    let wall = clock.monotonic().saturating_sub(started);
    let artifact = record(context, stage, plan, &computed, (wall, progress.counters().now()));
    if let Some(original) = original(context, name) {
        let kind = behaviour(&stage.stage.spec.kind).traits().repeats;
        // A table in one piece has one order.
        let repeats = if original.record.parts.len() > 1 { kind } else { kind.min(Repeats::Rows) };
        let replayed = compare_again(&context.store, &original.record, &artifact, repeats).await?;
        let replayed = match replayed {
            Replayed::SameRows | Replayed::SameSet if progress.counters().now().replayed > 0 => {
                Replayed::FromRecord
            }
            other => other,
        };
        return given_back(context, stage, name, original, replayed).await;
    }
    if context.verify && stage.query.is_some() {
        let table = StageTable::new(name.as_str(), stage.table.schema());
        fill(&table, &artifact, computed.kept.clone(), &context.store).await?;
        second_plan(context, name, &table).await?;
    }
    let artifact = checked(context, stage, name, artifact, &computed).await?;
    let stored = match plan.replace.as_ref().or(plan.action.stored()) {
        Some(old) => replace(&context.store, &artifact, old).await?,
        None => publish(&context.store, &artifact).await?,
    };
    // Somebody may have been faster; then theirs counts, and ours is never looked at again.
    let kept = computed.kept.filter(|_| stored.record.parts == artifact.parts);
    fill(&stage.table, &stored.record, kept, &context.store).await?;
    let outcome = StageOutcome {
        status: StageStatus::Computed,
        cached_from: None,
        wall_ms: wall.as_millis() as u64,
        ..outcome(name, stage, &stored)
    };
    let (mut notes, requests) = (computed.notes, progress.requests());
    if requests.is_some() {
        // Of this run and its machine: the record does not keep them.
        notes.extend(context.engine.models().notices());
    }
    Ok(Done { outcome, notes, requests })
}

/// The table that the stage gave in the run that is computed again.
fn original<'a>(context: &'a Context, name: &StageName) -> Option<&'a Stored<Artifact>> {
    context.replay.as_ref()?.original(name, &context.plan.stages[name].fingerprint)
}

/// Ends a stage of a replay: the stages that read it get the table that the run gave.
async fn given_back(
    context: &Context,
    stage: &PreparedStage,
    name: &StageName,
    original: &Stored<Artifact>,
    replayed: Replayed,
) -> Result<Done, StageError> {
    context.replay.iter().for_each(|replay| replay.set(name, replayed.clone()));
    fill(&stage.table, &original.record, None, &context.store).await?;
    Ok(Done { outcome: outcome(name, stage, original), notes: Vec::new(), requests: None })
}

/// How a stage ended whose record is `stored`.
pub fn outcome(name: &StageName, stage: &PreparedStage, stored: &Stored<Artifact>) -> StageOutcome {
    let artifact = &stored.record;
    StageOutcome {
        stage: name.clone(),
        kind: stage.stage.spec.kind.name().to_owned(),
        fingerprint: Some(artifact.fingerprint),
        status: StageStatus::Cached,
        cached_from: Some(artifact.created_by.clone()),
        rows: artifact.rows,
        bytes: artifact.bytes,
        error_rows: artifact.errors.iter().map(|part| part.rows).sum(),
        wall_ms: 0,
        artifact: Some(stored.into()),
    }
}

fn record(
    context: &Context,
    stage: &PreparedStage,
    plan: &PlannedStage,
    computed: &Computed,
    (wall, counts): (Duration, Counts),
) -> Artifact {
    let schema = stage.table.schema();
    let tables = stage.stage.inputs.iter().filter_map(|it| context.prepared.stages.get(&it.stage));
    let usage = StageUsage {
        input_rows: tables.map(|input| input.table.rows()).sum(),
        answered: counts.answered,
        replayed: counts.replayed,
        tokens: counts.prompt_tokens + counts.output_tokens,
    };
    let mut artifact = Artifact {
        v: ARTIFACT_VERSION,
        fingerprint: plan.fingerprint,
        stage: stage.stage.spec.name.clone(),
        kind: stage.stage.spec.kind.name().to_owned(),
        created_by: context.run.clone(),
        created_at: context.store.clock().now(),
        schema: columns_of(&schema),
        schema_ipc: schema_to_hex(&schema),
        rows: computed.parts.iter().map(|part| part.rows).sum(),
        bytes: 0,
        parts: computed.parts.clone(),
        errors: computed.errors.clone(),
        files: computed.files.clone(),
        components: plan.components.map().clone(),
        inputs: Some(inputs(context, stage)),
        transient_errors: computed.transient_errors,
        checks: Vec::new(),
        wall_ms: wall.as_millis() as u64,
        usage: Some(usage),
        notes: computed.notes.clone(),
        rows_root: computed.rows_root,
        extensions: Extensions::new(),
    };
    artifact.bytes = artifact.objects().iter().map(|(_, bytes)| bytes).sum();
    artifact
}

/// The tables that the inputs of a stage are in this run, by their names among the components.
fn inputs(context: &Context, stage: &PreparedStage) -> BTreeMap<String, Digest> {
    let inputs = stage.stage.inputs.iter();
    inputs.filter_map(|input| Some((input.role.label()?, context.digest(&input.stage)?))).collect()
}

/// True if the tables of all inputs are those that `artifact` was made of.
pub fn is_made_of_this_run(context: &Context, stage: &PreparedStage, artifact: &Artifact) -> bool {
    artifact.inputs.as_ref() == Some(&inputs(context, stage))
}

/// The record with the verdicts of the checks; an error if one of them blocks.
async fn checked(
    context: &Context,
    stage: &PreparedStage,
    name: &StageName,
    mut artifact: Artifact,
    computed: &Computed,
) -> Result<Artifact, StageError> {
    let checks = &stage.stage.spec.common.checks;
    if checks.is_empty() {
        return Ok(artifact);
    }
    bind_checked(context, stage).await?;
    let table = Arc::new(StageTable::new(name.as_str(), stage.table.schema()));
    fill(&table, &artifact, computed.kept.clone(), &context.store).await?;
    let verdicts = checks::run(&stage.stage, &table, &context.prepared, &context.engine).await?;
    let rejected = match verdicts.iter().any(Verdict::is_blocking) {
        true => Some(keep_aside(&context.store, &artifact).await?),
        false => None,
    };
    judge(context, name, &verdicts, rejected)?;
    for (check, verdict) in checks.iter().zip(&verdicts) {
        let mut verdict = verdict.to_json();
        verdict["definition"] = serde_json::to_value(check).unwrap_or_default();
        artifact.checks.push(verdict);
    }
    Ok(artifact)
}

/// Compares the rows of `table` with what a second plan of the stage's query gives.
async fn second_plan(
    context: &Context,
    name: &StageName,
    table: &StageTable,
) -> Result<(), StageError> {
    let stage = &context.prepared.stages[name];
    let Some(query) = &stage.query else { return Ok(()) };
    let rows = rows::of_table(table, &context.store).try_collect().await?;
    let inputs = stage.stage.inputs.iter();
    let tables = inputs.filter_map(|input| context.prepared.stages.get(&input.stage));
    let input_rows = tables.map(|input| input.table.rows()).sum();
    let first = context.engine.running(input_rows, stage.stage.spec.common.partitions);
    let remark = |text: &str| context.observer.notice(&Notice::Remark { text });
    let compared = compare(query, rows, &first, &context.engine.plain()).await?;
    context
        .second_plans
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .note(name.as_str(), &compared);
    match compared {
        Compared::Same | Compared::Open(_) => Ok(()),
        Compared::Different(Disagreement { message, plans }) => {
            remark(&format!("stage `{name}`: {plans}"));
            Err(StageError::SecondPlan(message))
        }
    }
}

/// Binds the tables that checks compare with.
async fn bind_checked(context: &Context, stage: &PreparedStage) -> Result<(), StageError> {
    for input in stage.stage.inputs.iter().filter(|input| matches!(input.role, Role::Check(_))) {
        bind(context, &input.stage).await?;
    }
    Ok(())
}

/// Tells of violations; an error if one of them blocks. Then people can look at the table `rejected`.
fn judge(
    context: &Context,
    name: &StageName,
    verdicts: &[Verdict],
    rejected: Option<Stored<Artifact>>,
) -> Result<(), StageError> {
    for verdict in verdicts.iter().filter(|verdict| verdict.violations > 0) {
        context.observer.notice(&Notice::CheckFailed { stage: name, verdict });
    }
    let blocking: Vec<_> = verdicts.iter().filter(|verdict| verdict.is_blocking()).collect();
    match blocking.first() {
        None => Ok(()),
        Some(first) => Err(StageError::Checks {
            failed: blocking.len(),
            first: format!("`{}`: {}", first.check, first.message),
            rejected: rejected
                .map(|artifact| Box::new(Rejected { artifact, query: first.query.clone() })),
        }),
    }
}

/// `work`, unless it takes too long or somebody stops the run. Then it sends no more requests, and
/// the answers in flight are waited for and recorded.
async fn within<T>(
    timeout: Option<Duration>,
    context: &Context,
    (name, counters): (&StageName, &Counters),
    work: impl Future<Output = Result<T, StageError>>,
) -> Result<T, StageError> {
    let late = async {
        match timeout {
            Some(timeout) => {
                context.store.clock().sleep(timeout).await;
                timeout
            }
            None => std::future::pending().await,
        }
    };
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => done,
        timeout = late => Err(StageError::Timeout(timeout)),
        () = context.stop.cancelled() => {
            if counters.now().sent > 0 {
                counters.interrupt();
                let text = format!(
                    "stage `{name}` waits up to {} s for {} answers in flight; a second signal stops it immediately",
                    DRAIN_MAX.as_secs(),
                    counters.in_flight(),
                );
                context.observer.notice(&Notice::Remark { text: &text });
                tokio::select! {
                    _ = &mut work => {}
                    () = context.store.clock().sleep(DRAIN_MAX) => {}
                }
            }
            Err(StageError::Stopped)
        }
    }
}

pub fn named(name: &StageName, error: StageError) -> Error {
    let error = Error::from(error);
    Error { message: format!("stage `{name}`: {}", error.message), ..error }
}
