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
use crate::run::reports::{self, Page};
use crate::run::resume::{Earlier, take_over};
use crate::run::stored::is_result;
use crate::session::Content;
use crate::stages::load::Loaded;
use crate::stages::sink::Kept;
use crate::stages::tables::rows::objects;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{PipelineName, RunId, StageName};
use proofmill_catalog::event::{Event, StageFailure};
use proofmill_store::{
    Lease, LocalUsage, MANIFEST_VERSION, Machine, Manifest, ModelUsage, Outcome, PipelineRef,
    RunLog, Session, StageOutcome, Store, publish_manifest,
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
    let params: BTreeMap<String, Json> =
        prepared.graph.pipeline.params.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let (run, engine) = (request.run, request.loaded.engine);
    let plan = plan(&prepared, &request.choice, run.as_str(), &store).await?;
    let taking_part = plan.count(|action| !matches!(action, PlannedAction::Skip));
    let cached = plan.count(|action| matches!(action, PlannedAction::Cached(_)));
    let started = Event::Started {
        pipeline: pipeline.clone(),
        params: params.clone(),
        code: code.clone(),
        templates: templates.clone(),
        machine: request.machine.clone(),
        stages: taking_part,
    };
    plan.remarks.iter().for_each(|text| request.observer.notice(&Notice::Remark { text }));
    let (log, lease, mut earlier) = match request.is_resumed {
        false => {
            let log = RunLog::create(&store, &run, &started).await?;
            (log, Lease::take(&store, &run).await?, Earlier::default())
        }
        true => take_over(&store, &run, &started, request.observer.as_ref()).await?,
    };
    let expected = &expected(&prepared, &plan);
    let notice = Notice::Started { run: &run, stages: taking_part, cached, expected };
    request.observer.notice(&notice);
    let bound = prepared.stages.keys().map(|name| (name.clone(), OnceCell::new())).collect();
    let context = Arc::new(Context {
        run: run.clone(),
        prepared,
        plan,
        engine,
        store: store.clone(),
        cache: request.cache,
        observer: Arc::clone(&request.observer),
        stop: request.stop,
        permits: request.permits,
        kept: request.kept,
        verify: request.choice.verify,
        second_plans: Mutex::default(),
        bound,
    });
    let Ended { outcome, stages, failed, error, head } =
        dispatch(Arc::clone(&context), log).await?;
    let metrics = metrics(&context, &stages).await?;
    let (models, local_models) = (usage(&context), local_usage(&context));
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
            trigger: json!({"kind": "command"}),
            code,
            templates,
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
        };
        publish_manifest(&store, &manifest).await?;
    }
    if let Some(lease) = lease {
        lease.release().await;
    }
    let pages = reports::of_run(&stages, &store).await?;
    let wall = clock.monotonic().saturating_sub(began);
    if context.verify {
        let said = context.second_plans.lock().unwrap_or_else(PoisonError::into_inner).lines();
        said.iter().for_each(|text| request.observer.notice(&Notice::Remark { text }));
    }
    request.observer.notice(&Notice::Finished { outcome, wall });
    Ok(RunResult { run, outcome, stages, failed, metrics, models, local_models, pages, error })
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
