//! The one task that owns a run: it starts stages when their inputs are there, writes the log, and
//! knows how everything ended. Stages work in tasks of their own and only report back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use indexmap::IndexMap;
use tokio::task::JoinSet;
use tracing::{Instrument, error_span};

use crate::run::attempt::{self, Done};
use crate::run::context::Context;
use crate::run::notice::Notice;
use crate::run::planned::PlannedAction;
use crate::run::stored::needs_confirmation;
use crate::stages::checks::Verdict;
use crate::stages::error::StageError;
use proofmill_base::error::{Error, ErrorKind};
use proofmill_base::ids::StageName;
use proofmill_catalog::event::{Event, StageFailure};
use proofmill_store::{
    Artifact, Head, Outcome, RunLog, StageOutcome, StageStatus, StoreError, Stored,
};

/// Stages that have begun and not ended: those that compute, and those whose commit is under way.
const IN_FLIGHT_MAX: usize = 256;
/// Cached stages that one log entry names.
const OUTCOMES_PER_ENTRY_MAX: usize = 4096;

/// How a run ended.
pub struct Ended {
    pub outcome: Outcome,
    /// Stage by stage, in the order of the plan.
    pub stages: IndexMap<StageName, StageOutcome>,
    pub failed: Vec<StageFailure>,
    pub error: Option<Error>,
    pub head: Head,
}

/// What a stage's task reports: how the stage ended; nothing if it was cached.
type StageResult = Result<Option<Done>, StageError>;

/// A log entry under way: gives the log back.
type Append = tokio::task::JoinHandle<(RunLog<Event>, Result<(), StoreError>)>;

/// Runs all stages of the plan.
pub async fn dispatch(context: Arc<Context>, log: RunLog<Event>) -> Result<Ended, Error> {
    let mut dispatcher = Dispatcher::new(context, log);
    dispatcher.work().await?;
    dispatcher.end().await
}

struct Dispatcher {
    context: Arc<Context>,
    /// The log, unless an entry is under way.
    log: Option<RunLog<Event>>,
    append: Option<Append>,
    /// Stages that ended and are not in the log yet.
    unlogged: Vec<StageOutcome>,
    /// Failures that the log does not have yet.
    failures: Vec<StageFailure>,
    failed: Vec<StageFailure>,
    error: Option<Error>,
    outcomes: HashMap<StageName, StageOutcome>,
    /// How many inputs each stage still waits for.
    waiting: HashMap<StageName, usize>,
    dependents: HashMap<StageName, Vec<StageName>>,
    /// How many stages that have not ended ask each model.
    asking: HashMap<String, usize>,
    ready: std::collections::VecDeque<StageName>,
    tasks: JoinSet<StageResult>,
    /// The stage of each task.
    names: HashMap<tokio::task::Id, StageName>,
}

impl Dispatcher {
    fn new(context: Arc<Context>, log: RunLog<Event>) -> Self {
        let mut dispatcher = Self {
            context,
            log: Some(log),
            append: None,
            unlogged: Vec::new(),
            failures: Vec::new(),
            failed: Vec::new(),
            error: None,
            outcomes: HashMap::new(),
            waiting: HashMap::new(),
            dependents: HashMap::new(),
            asking: HashMap::new(),
            ready: std::collections::VecDeque::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
        };
        let context = Arc::clone(&dispatcher.context);
        for (name, plan) in &context.plan.stages {
            if matches!(plan.action, PlannedAction::Skip) {
                continue;
            }
            let inputs: HashSet<&StageName> = context.prepared.stages[name]
                .stage
                .inputs
                .iter()
                .map(|input| &input.stage)
                .filter(|input| !matches!(context.plan.stages[*input].action, PlannedAction::Skip))
                .collect();
            for input in &inputs {
                dispatcher.dependents.entry((*input).clone()).or_default().push(name.clone());
            }
            for model in &context.prepared.stages[name].models {
                *dispatcher.asking.entry(model.clone()).or_default() += 1;
            }
            dispatcher.waiting.insert(name.clone(), inputs.len());
            if inputs.is_empty() {
                dispatcher.ready.push_back(name.clone());
            }
        }
        dispatcher
    }

    /// The stored table of a stage that is ready, if it counts: its inputs are what they were.
    fn hit(context: &Context, name: &StageName) -> Option<Stored<Artifact>> {
        match &context.plan.stages[name].action {
            PlannedAction::Cached(artifact) => Some(artifact.clone()),
            PlannedAction::Revalidate(artifact) => {
                let stage = &context.prepared.stages[name];
                attempt::is_made_of_this_run(context, stage, &artifact.record)
                    .then(|| artifact.clone())
            }
            PlannedAction::Run | PlannedAction::Skip => None,
        }
    }

    /// Ends a cached stage whose checks are those that its table passed; false for any other.
    fn settle(&mut self, name: &StageName) -> bool {
        let context = Arc::clone(&self.context);
        let stage = &context.prepared.stages[name];
        let Some(artifact) = Self::hit(&context, name) else { return false };
        let computed_twice = context.verify && stage.query.is_some();
        if computed_twice || needs_confirmation(stage, &artifact.record) {
            return false;
        }
        let checks = artifact.record.checks.iter().filter_map(Verdict::from_json);
        for verdict in checks.filter(|verdict| verdict.violations > 0) {
            let notice = Notice::CheckFailed { stage: name, verdict: &verdict };
            context.observer.notice(&notice);
        }
        self.finished(name.clone(), cached(attempt::outcome(name, stage, &artifact)));
        true
    }

    async fn work(&mut self) -> Result<(), Error> {
        loop {
            self.start_ready();
            self.start_append();
            if self.tasks.is_empty() && self.append.is_none() {
                return Ok(());
            }
            let appending = async {
                match &mut self.append {
                    Some(append) => append.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(joined) = self.tasks.join_next_with_id() => self.joined(joined),
                appended = appending => {
                    self.append = None;
                    let (log, result) = appended.map_err(|error| task_died(&error))?;
                    self.log = Some(log);
                    result?;
                }
            }
        }
    }

    fn start_ready(&mut self) {
        while self.tasks.len() < IN_FLIGHT_MAX && !self.context.stop.is_cancelled() {
            let Some(name) = self.ready.pop_front() else { return };
            if self.settle(&name) {
                continue;
            }
            let (context, stage) = (Arc::clone(&self.context), name.clone());
            let kind = context.prepared.stages[&name].stage.spec.kind.name();
            let fingerprint = context.plan.stages[&name].fingerprint;
            let span = error_span!("stage", stage = %name, kind, %fingerprint);
            let work = async move {
                match Self::hit(&context, &name) {
                    Some(_) => attempt::confirm(&context, &name).await.map(|()| None),
                    None => attempt::run(&context, &name).await.map(Some),
                }
            };
            let task = self.tasks.spawn(work.instrument(span));
            self.names.insert(task.id(), stage);
        }
    }

    /// Writes what has ended since the last entry, if no entry is under way.
    fn start_append(&mut self) {
        let Some(event) = self.next_event() else { return };
        let Some(mut log) = self.log.take() else { return };
        self.append = Some(tokio::spawn(async move {
            let result = log.append(&event).await.map(|_| ());
            (log, result)
        }));
    }

    fn next_event(&mut self) -> Option<Event> {
        self.log.as_ref()?;
        if !self.unlogged.is_empty() {
            let n = self.unlogged.len().min(OUTCOMES_PER_ENTRY_MAX);
            return Some(Event::Stages(self.unlogged.drain(..n).collect()));
        }
        let failures = std::mem::take(&mut self.failures);
        (!failures.is_empty()).then_some(Event::Failed { failures })
    }

    /// A task ended; one that panicked is a stage that failed.
    fn joined(&mut self, joined: Result<(tokio::task::Id, StageResult), tokio::task::JoinError>) {
        let (id, result) = match joined {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(StageError::Task(error.to_string()))),
        };
        if let Some(name) = self.names.remove(&id) {
            self.reported(name, result);
        }
    }

    fn reported(&mut self, name: StageName, result: StageResult) {
        match result {
            Ok(Some(done)) => self.finished(name, done),
            Ok(None) => {
                let context = Arc::clone(&self.context);
                if let Some(artifact) = context.plan.stages[&name].action.stored() {
                    let outcome =
                        attempt::outcome(&name, &context.prepared.stages[&name], artifact);
                    self.finished(name, cached(outcome));
                }
            }
            Err(StageError::Stopped) => {}
            Err(error) => {
                self.unload_models(&name);
                let message = error.to_string();
                self.context
                    .observer
                    .notice(&Notice::StageFailed { stage: &name, message: &message });
                let (outcome, query) = self.failed(&name, &error);
                let failure = StageFailure {
                    stage: name.to_string(),
                    message,
                    outcome: Some(outcome.clone()),
                    query,
                };
                self.failures.push(failure.clone());
                self.failed.push(failure);
                // Its table is only for people who look into the failure.
                let outcome = StageOutcome { artifact: None, ..outcome };
                self.outcomes.insert(name.clone(), outcome);
                self.error.get_or_insert_with(|| attempt::named(&name, error));
            }
        }
    }

    /// How a stage ended that failed, and a query that gives the rows at fault, if rows are.
    fn failed(&self, name: &StageName, error: &StageError) -> (StageOutcome, Option<String>) {
        let stage = &self.context.prepared.stages[name];
        if let StageError::Checks { rejected: Some(rejected), .. } = error {
            let outcome = StageOutcome {
                status: StageStatus::Failed,
                cached_from: None,
                wall_ms: rejected.artifact.record.wall_ms,
                ..attempt::outcome(name, stage, &rejected.artifact)
            };
            return (outcome, rejected.query.clone());
        }
        let outcome = StageOutcome {
            stage: name.clone(),
            kind: stage.stage.spec.kind.name().to_owned(),
            fingerprint: Some(self.context.plan.stages[name].fingerprint),
            status: StageStatus::Failed,
            cached_from: None,
            rows: 0,
            bytes: 0,
            error_rows: 0,
            wall_ms: 0,
            artifact: None,
        };
        (outcome, None)
    }

    fn finished(&mut self, name: StageName, done: Done) {
        let Done { outcome, notes, requests } = done;
        let notice = Notice::StageFinished { outcome: &outcome, notes: &notes, requests };
        self.context.observer.notice(&notice);
        self.unlogged.push(outcome.clone());
        self.unload_models(&name);
        for dependent in self.dependents.remove(&name).unwrap_or_default() {
            if let Some(waiting) = self.waiting.get_mut(&dependent) {
                *waiting -= 1;
                if *waiting == 0 {
                    self.ready.push_back(dependent);
                }
            }
        }
        self.outcomes.insert(name, outcome);
    }

    /// Unloads the models of this stage, which has ended, that no unfinished stage uses.
    fn unload_models(&mut self, name: &StageName) {
        for model in &self.context.prepared.stages[name].models {
            let Some(stages) = self.asking.get_mut(model) else { continue };
            *stages -= 1;
            if *stages == 0 {
                self.context.engine.models().unload(model);
            }
        }
    }

    async fn end(mut self) -> Result<Ended, Error> {
        let stopped = self.context.stop.is_cancelled() && self.outcomes.len() < self.waiting.len();
        let outcome = match (&self.error, stopped) {
            (_, true) => Outcome::Interrupted,
            (Some(_), false) => Outcome::Failed,
            (None, false) => Outcome::Succeeded,
        };
        if stopped {
            let message = format!("run `{}` was stopped", self.context.run);
            self.error = Some(Error::new(ErrorKind::Interrupted, message));
        }
        let Some(mut log) = self.log.take() else {
            return Err(Error::new(ErrorKind::Internal, "the run's log is gone"));
        };
        log.append(&Event::Finished { outcome }).await?;
        let names = self.context.plan.stages.keys();
        let stages = names.filter_map(|name| self.outcomes.remove_entry(name)).collect();
        Ok(Ended { outcome, stages, failed: self.failed, error: self.error, head: log.head() })
    }
}

/// A stage whose table was there.
fn cached(outcome: StageOutcome) -> Done {
    Done { outcome, notes: Vec::new(), requests: None }
}

fn task_died(error: &tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, format!("a task of the run failed: {error}"))
}
