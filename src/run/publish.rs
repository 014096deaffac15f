//! A whole run: started or taken over, dispatched, published.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use indexmap::IndexMap;
use serde_json::{Value as Json, json};
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error_span};

use crate::run::bind::bind;
use crate::run::context::Context;
use crate::run::dispatcher::{Ended, dispatch};
use crate::run::estimate::expected;
use crate::run::notice::{Notice, Observer};
use crate::run::plan::plan;
use crate::run::planned::{Choice, PlannedAction};
use crate::run::provenance::{code_versions, templates};
use crate::run::pulse::RunPulse;
use crate::run::replay::Replay;
use crate::run::reports::{self, Page};
use crate::run::resume::{Earlier, alive, take_over};
use crate::run::sources::{self, Copies};
use crate::run::stored::is_result;
use crate::session::Content;
use crate::stages::load::Loaded;
use crate::stages::plan::Prepared;
use crate::stages::sink::Kept;
use crate::stages::tables::rows::objects;
use proofmill_audit::checkpoint;
use proofmill_audit::note::Signer;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{PipelineName, RunId, StageName};
use proofmill_catalog::audit::completion::RunAudit;
use proofmill_catalog::audit::entry::RunEnd;
use proofmill_catalog::event::{Event, StageFailure};
use proofmill_remote::Reported;
use proofmill_store::{
    Claim, Claimed, Head, LocalUsage, LogFolder, MANIFEST_VERSION, Machine, Manifest, ModelUsage,
    Outcome, PipelineRef, ReportedModel, ReportedModels, RunLog, Session, SourceRefs, StageOutcome,
    Store, Trigger, publish_manifest, reported_extension,
};

/// What to run, and how.
pub struct Request {
    pub loaded: Loaded,
    /// Where its file is, for the record.
    pub path: String,
    /// Where it runs, for the record.
    pub machine: Machine,
    pub choice: Choice,
    pub run: RunId,
    /// Whether the run was begun before and goes on.
    pub is_resumed: bool,
    /// What started it, unless it is resumed.
    pub trigger: Trigger,
    /// Which of its texts go into the store.
    pub copies: Copies,
    /// The key that signs the audit log once the run is entered, if there is one.
    pub signer: Option<Signer>,
    /// The run that is computed again, if this is a replay.
    pub replay: Option<Arc<Replay>>,
    /// Permits to compute, which all runs of a process share.
    pub permits: Arc<Semaphore>,
    /// What it keeps in memory.
    pub kept: Kept,
    /// Folder on this machine for opened indexes.
    pub cache: PathBuf,
    pub observer: Arc<dyn Observer>,
    pub stop: CancellationToken,
}

/// A run that ended.
pub struct RunResult {
    pub run: RunId,
    pub outcome: Outcome,
    pub stages: IndexMap<StageName, StageOutcome>,
    pub failed: Vec<StageFailure>,
    /// Rows of the stages that measure or compare, by stage.
    pub metrics: Vec<(StageName, Vec<RecordBatch>)>,
    /// Usage of models behind endpoints, by their names.
    pub models: BTreeMap<String, ModelUsage>,
    /// What models in folders computed, by their names.
    pub local_models: BTreeMap<String, LocalUsage>,
    /// What its `report` stages drew.
    pub pages: Vec<Page>,
    pub error: Option<Error>,
}

/// Runs a pipeline.
pub async fn run(request: Request, store: Store) -> Result<RunResult> {
    // Spans of this level are part of every log, so that each entry says what it is about.
    let span = error_span!("run", run = %request.run);
    run_to_its_end(request, store).instrument(span).await
}

async fn run_to_its_end(request: Request, store: Store) -> Result<RunResult> {
    let clock = Arc::clone(store.clock());
    let (started_at, began) = (clock.now(), clock.monotonic());
    let pipeline = PipelineRef {
        name: name_of(&request.loaded)?,
        path: request.path,
        yaml_sha256: request.loaded.yaml_sha256,
    };
    let (templates, code) = (templates(&request.loaded.sources), code_versions());
    let Some(prepared) = request.loaded.prepared else {
        return Err(Error::new(ErrorKind::Pipeline, "the pipeline has errors"));
    };
    let sources = match &request.replay {
        // Its texts are those of the run that is computed again.
        Some(_) => SourceRefs::new(),
        None => sources::keep(&request.loaded.sources, &prepared, request.copies, &store).await?,
    };
    let params: BTreeMap<String, Json> =
        prepared.graph.pipeline.params.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let (run, engine) = (request.run, request.loaded.engine);
    let nonce = request.replay.as_ref().map_or(&run, |replay| &replay.of);
    let mut plan = plan(&prepared, &request.choice, nonce.as_str(), &store).await?;
    if let Some(replay) = &request.replay {
        replay.arrange(&mut plan, &prepared);
    }
    let taking_part = plan.count(|action| !matches!(action, PlannedAction::Skip));
    let cached = plan.count(|action| matches!(action, PlannedAction::Cached(_)));
    let trigger = if request.is_resumed { Trigger::Resume } else { request.trigger };
    let started = Event::Started {
        pipeline: pipeline.clone(),
        params: params.clone(),
        code: code.clone(),
        templates: templates.clone(),
        sources: sources.clone(),
        trigger: trigger.clone(),
        machine: request.machine.clone(),
        stages: taking_part,
    };
    let pulse = Arc::new(RunPulse::new(request.observer, request.stop.clone()));
    let observer: Arc<dyn Observer> = pulse.clone();
    plan.remarks.iter().for_each(|text| observer.notice(&Notice::Remark { text }));
    let audit = RunAudit::open(&store).await?;
    let (log, claim, mut earlier) = match request.is_resumed {
        false => {
            // The sign of life first: without it, another process would take the run for one that was killed.
            let claim = Claim::take(&store, &Claimed::run(&run), pulse).await?;
            let claim = claim.ok_or_else(|| alive(&run))?;
            // A run whose identity was reserved may have been run by another process meanwhile.
            if store.size(&LogFolder::of_run(&run).entry(0)).await?.is_some() {
                claim.release().await;
                return Err(Error::new(ErrorKind::Usage, format!("run `{run}` has begun before")));
            }
            audit.began(&run, &pipeline, &trigger).await?;
            (RunLog::create(&store, &run, &started).await?, claim, Earlier::default())
        }
        true => take_over(&store, &run, &started, &audit, pulse).await?,
    };
    let expected = &expected(&prepared, &plan);
    // A replay is shown as the run that it computes again: its own id is gone with it.
    let shown = request.replay.as_ref().map_or(&run, |replay| &replay.of);
    let notice = Notice::Started { run: shown, stages: taking_part, cached, expected };
    observer.notice(&notice);
    let bound = prepared.stages.keys().map(|name| (name.clone(), OnceCell::new())).collect();
    let context = Arc::new(Context {
        run: run.clone(),
        prepared,
        plan,
        engine,
        store: store.clone(),
        cache: request.cache,
        observer: Arc::clone(&observer),
        stop: request.stop,
        permits: request.permits,
        kept: request.kept,
        replay: request.replay,
        verify: request.choice.verify,
        second_plans: Mutex::default(),
        bound,
    });
    let Ended { outcome, stages, failed, error, head } =
        dispatch(Arc::clone(&context), log).await?;
    let metrics = metrics(&context, &stages).await?;
    let (models, local_models) = (usage(&context), local_usage(&context));
    let mut end = RunEnd {
        run: run.clone(),
        pipeline: pipeline.name.clone(),
        how: outcome.into(),
        manifest: None,
        log: Some(head),
        heads: heads(&context.prepared, earlier.trigger.as_ref().unwrap_or(&trigger), &store)
            .await?,
        late: false,
    };
    if outcome == Outcome::Succeeded {
        let finished_at = clock.now();
        earlier.sessions.push(Session { started_at, finished_at });
        stages.values().for_each(|outcome| earlier.stages.add(outcome));
        let of_run = stages.keys().filter_map(|name| earlier.stages.get(name).cloned());
        let manifest = Manifest {
            v: MANIFEST_VERSION,
            run: run.clone(),
            pipeline,
            params,
            trigger: earlier.trigger.unwrap_or(trigger),
            code,
            templates,
            sources,
            machine: request.machine,
            started_at: earlier.sessions[0].started_at,
            finished_at,
            outcome,
            stages: of_run.collect(),
            sessions: earlier.sessions,
            metrics: metrics_json(&metrics),
            models: models.clone(),
            local_models: local_models.clone(),
            log: head,
            extensions: reported_extension(&reported(&context)),
        };
        end.manifest = Some(publish_manifest(&store, &manifest).await?.sha256);
    }
    if let Err(error) = enter_end(&audit, end, request.signer.as_ref(), &store).await {
        // The run is what it is: the next process enters its end.
        let text = format!("the audit log does not name the end of this run yet: {error}");
        observer.notice(&Notice::Remark { text: &text });
    }
    claim.release().await;
    let pages = reports::of_run(&stages, &store).await?;
    let wall = clock.monotonic().saturating_sub(began);
    if context.verify {
        let said = context.second_plans.lock().unwrap_or_else(PoisonError::into_inner).lines();
        said.iter().for_each(|text| observer.notice(&Notice::Remark { text }));
    }
    observer.notice(&Notice::Finished { outcome, wall });
    Ok(RunResult { run, outcome, stages, failed, metrics, models, local_models, pages, error })
}

/// The last entries of the logs that a run has to do with: its schedule, recorded answers, and memories.
async fn heads(
    prepared: &Prepared,
    trigger: &Trigger,
    store: &Store,
) -> Result<BTreeMap<String, Head>> {
    let mut logs = Vec::new();
    if let Trigger::Schedule { name, .. } = trigger {
        logs.push(LogFolder::of_schedule(name));
    }
    if prepared.stages.values().any(|stage| !stage.models.is_empty()) {
        logs.push(LogFolder::of_ledger());
    }
    let memories = prepared.stages.values().filter_map(|stage| stage.stage.spec.kind.memory());
    logs.extend(
        memories.filter_map(|name| name.parse().ok()).map(|name| LogFolder::of_memory(&name)),
    );
    let mut heads = BTreeMap::new();
    for log in logs {
        if let Some(head) = log.last(store).await? {
            heads.insert(log.name().to_owned(), head);
        }
    }
    Ok(heads)
}

/// Enters the end of a run into the audit log, and signs the log if there is a key.
async fn enter_end(
    audit: &RunAudit,
    end: RunEnd,
    signer: Option<&Signer>,
    store: &Store,
) -> Result<()> {
    let head = audit.ended(end).await?;
    if let (Some(head), Some(signer)) = (&head, signer) {
        checkpoint::keep(store, head, signer).await?;
    }
    Ok(())
}

fn name_of(loaded: &Loaded) -> Result<PipelineName> {
    let name = loaded.prepared.as_ref().map_or("", |prepared| &prepared.graph.pipeline.name);
    name.parse().map_err(|error| {
        Error::new(ErrorKind::Pipeline, "the pipeline has no valid name").with_source(error)
    })
}

/// The run's usage of models behind endpoints.
fn usage(context: &Context) -> BTreeMap<String, ModelUsage> {
    let spent = context.engine.models().spent();
    let usage = spent.map(|(name, usage, cost)| {
        let usage = ModelUsage {
            requests: usage.requests,
            retries: usage.retries,
            answers: usage.answers,
            uncounted: usage.uncounted,
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            completion_tokens: usage.output_tokens,
            cost: cost.map(|cost| cost.to_string()),
        };
        (name.to_owned(), usage)
    });
    usage.collect()
}

/// What endpoints called themselves.
fn reported(context: &Context) -> ReportedModels {
    let reported = context.engine.models().reported();
    let model = |(reported, answers): (Reported, u64)| {
        let Reported { model, system_fingerprint } = reported;
        ReportedModel { model, system_fingerprint, answers }
    };
    let of = reported.map(|(name, all)| (name.to_owned(), all.into_iter().map(model).collect()));
    of.collect()
}

/// What the run computed with models in folders.
fn local_usage(context: &Context) -> BTreeMap<String, LocalUsage> {
    let computed = context.engine.models().computed();
    let usage = computed.map(|(name, counts)| {
        let usage = LocalUsage {
            answers: counts.answers,
            asked_tokens: counts.requested_tokens,
            computed_tokens: counts.encoder_rows + counts.decoder_rows,
        };
        (name.to_owned(), usage)
    });
    usage.collect()
}

/// The rows of all stages that measure or compare and are not only steps on the way.
async fn metrics(
    context: &Context,
    ended: &IndexMap<StageName, StageOutcome>,
) -> Result<Vec<(StageName, Vec<RecordBatch>)>> {
    let mut all = Vec::new();
    for name in ended.keys() {
        if ended[name].artifact.is_none() || !is_result(&context.prepared, name) {
            continue;
        }
        bind(context, name).await?;
        let table = context.prepared.stages[name].table.stored();
        if let Some(Content::Memory(batches)) = table.map(|stored| &stored.content) {
            all.push((name.clone(), batches.clone()));
        }
    }
    Ok(all)
}

fn metrics_json(metrics: &[(StageName, Vec<RecordBatch>)]) -> Vec<Json> {
    metrics.iter().flat_map(|(name, batches)| rows_json(name, batches)).collect()
}

/// The rows of a small table as JSON objects, each with its stage as `stage`; a column of that name is `_stage`.
pub fn rows_json(stage: &StageName, batches: &[RecordBatch]) -> Vec<Json> {
    let tagged = |row: serde_json::Map<String, Json>| {
        let mut object = serde_json::Map::from_iter([("stage".to_owned(), json!(stage.as_str()))]);
        let mut own = "_stage".to_owned();
        while row.contains_key(&own) {
            own.insert(0, '_');
        }
        object.extend(row.into_iter().map(|(name, value)| match name.as_str() {
            "stage" => (own.clone(), value),
            _ => (name, value),
        }));
        Json::Object(object)
    };
    objects(batches).into_iter().map(tagged).collect()
}
