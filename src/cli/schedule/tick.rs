//! `proofmill schedule tick`: one look at a schedule, and what it starts.

use chrono::{DateTime, Utc};
use proofmill_catalog::audit::entry::{BASELINE, Ending, VerdictWord};
use proofmill_catalog::summary::{RunSummary, summary};
use proofmill_schedule::decision::decide;
use proofmill_schedule::file::Schedule;
use proofmill_schedule::log::{ScheduleEntry, ScheduleLog};
use proofmill_schedule::state::{Fired, SampledStage, ScheduleEvent, ScheduleState, Skipped};
use proofmill_store::{Claimed, Life, Store, Trigger, life, order_stop, writer_name};
use tokio_util::sync::CancellationToken;

use crate::cli::args::Pipeline;
use crate::cli::display::Display;
use crate::cli::environment::Environment;
use crate::cli::gate::baseline_run;
use crate::cli::schedule::args::TickArgs;
use crate::cli::schedule::look::named_or_all;
use crate::cli::stop::on_signals;
use crate::host::RunStart;
use crate::host::judging::{NoVerdict, unknown_metric};
use crate::report::units::plural;
use crate::run::planned::Choice;
use crate::run::sources::Copies;
use crate::views::schedule::{TickView, Ticked, skipped};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{PipelineName, RunId};
use proofmill_pipeline::gate::Gate;
use proofmill_pipeline::models::Ask;
use proofmill_pipeline::project::plain;

/// Characters of the reason why a run cannot begin that the log keeps.
const REASON_CHARS_MAX: usize = 500;

/// Starts what is due, once.
pub async fn tick(args: &TickArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let names = named_or_all(&store, &args.names).await?;
    let stop = CancellationToken::new();
    let display = Display::of(environment);
    let watch = on_signals(stop.clone(), display.eraser())?;
    let (mut lines, mut failed) = (Vec::new(), None);
    for name in names {
        let scheduler =
            Scheduler { environment, store: &store, name: &name, stop: &stop, display: &display };
        while !stop.is_cancelled() {
            match Box::pin(scheduler.tick()).await {
                Ok(ticked) => {
                    let goes_on = matches!(ticked, Ticked::Ran { .. });
                    lines.push((name.clone(), ticked));
                    if !goes_on {
                        break;
                    }
                }
                // The other schedules are not stopped by it.
                Err(error) => {
                    environment.output.remark(format!("schedule `{name}`: {error}"));
                    failed.get_or_insert(error);
                    break;
                }
            }
        }
    }
    watch.abort();
    let ran = |fits: fn(Ending, Option<VerdictWord>) -> bool| {
        let fits = |(_, ticked): &&(PipelineName, Ticked)| match ticked {
            Ticked::Ran { how, verdict, .. } => fits(*how, *verdict),
            _ => false,
        };
        lines.iter().filter(fits).count()
    };
    let bad = ran(|how, _| how != Ending::Succeeded);
    let worse = ran(|_, verdict| verdict == Some(VerdictWord::Fail));
    let open = ran(|_, verdict| verdict.is_some_and(|word| word != VerdictWord::Pass));
    environment.output.view(&TickView(lines))?;
    let ended = |kind, runs, what: &str, hint: &str| {
        let message = format!("{} {what}", plural(runs, "run"));
        Err(Error::new(kind, message).with_hint(hint.to_owned()))
    };
    match failed {
        Some(error) => Err(error),
        None if stop.is_cancelled() => {
            let message = "stopped; the next tick goes on";
            Err(Error::new(ErrorKind::Interrupted, message))
        }
        None if bad > 0 => {
            let hint = "`proofmill show --run RUN` shows what failed";
            ended(ErrorKind::Stage, bad, "did not succeed", hint)
        }
        None if worse > 0 => ended(ErrorKind::Stage, worse, "failed at the gate", VERDICTS),
        None if open > 0 => ended(ErrorKind::Undecided, open, "without a verdict", VERDICTS),
        None => Ok(()),
    }
}

/// Where verdicts are shown.
const VERDICTS: &str = "`proofmill gate --check RUN` shows why";

/// Looks after one schedule.
pub struct Scheduler<'a> {
    pub environment: &'a Environment,
    pub store: &'a Store,
    pub name: &'a PipelineName,
    pub stop: &'a CancellationToken,
    pub display: &'a Display,
}

/// How a run stands that was fired.
enum Standing {
    Ended(Ending),
    Alive,
    /// Its process is gone, before it began or in the middle.
    Dead {
        has_begun: bool,
    },
}

/// What there is to say of a run that has ended.
struct Night {
    how: Ending,
    /// Requests that endpoints answered, if there are endpoints.
    requests: Option<u64>,
    /// Answers that were given once more.
    sampled: Vec<SampledStage>,
}

impl Night {
    fn of(how: Ending) -> Self {
        Self { how, requests: None, sampled: Vec::new() }
    }
}

impl Scheduler<'_> {
    /// Looks at the schedule, and sends the messages of its alerts.
    ///
    /// # Errors
    ///
    /// If the store fails, or the pipeline is not valid: then nothing is decided.
    pub async fn tick(&self) -> Result<Ticked> {
        let ticked = Box::pin(self.look()).await;
        // The messages are in the log: a later look sends what cannot be sent now.
        if let Err(error) = self.send_alerts().await {
            let hint = error.hint.iter().map(|hint| format!("; {hint}"));
            let hint: String = hint.collect();
            self.environment.output.remark(format!("schedule `{}`: {error}{hint}", self.name));
        }
        ticked
    }

    /// Enters the end of the last run, or resumes it if its process is gone; decides what is due, and runs it.
    async fn look(&self) -> Result<Ticked> {
        let log = ScheduleLog::of(self.store, self.name);
        let mut state = log.head().await?.state;
        let mut alive = None;
        if let Some(open) = state.open.clone() {
            match self.standing(&open.run).await? {
                Standing::Ended(how) => {
                    let schedule = state.schedule.as_ref();
                    self.ended(&log, schedule, &open.run, Night::of(how)).await?;
                    state = log.head().await?.state;
                }
                Standing::Alive => alive = Some(open.run),
                Standing::Dead { has_begun } => {
                    return self.go_on(&log, &state, open, has_begun).await;
                }
            }
        }
        let Some(schedule) = state.schedule.clone() else { return Ok(Ticked::Nothing) };
        let clock = self.environment.host.clock();
        let mut run = self.environment.host.new_run();
        let now = clock.now();
        let preview = decide(&state, now, &run).map_err(|error| {
            Error::new(ErrorKind::Usage, format!("schedule `{}`: {error}", self.name))
        })?;
        if let Some(fired) = preview.as_ref().and_then(|decided| decided.fired.as_ref()) {
            // Nothing is fired that could not begin.
            if let Err(error) = self.check(&schedule).await {
                self.refused(&log, fired, &error).await?;
                return Err(error);
            }
            run = self.environment.next_run(self.store).await?;
        }
        let event = |state: &ScheduleState| {
            decide(state, now, &run).map(|decided| decided.map(ScheduleEvent::Decided))
        };
        let appended = match preview {
            Some(_) => log.append(&writer_name(self.store), event).await?,
            None => None,
        };
        if let Some((_, ScheduleEvent::Decided(decided))) = appended {
            decided.skipped.iter().for_each(|skipped| self.remark_skipped(skipped));
            if let Some(run) = &decided.stop {
                order_stop(self.store, &Claimed::run(run)).await?;
            }
            if let Some(fired) = decided.fired.filter(|fired| fired.run == run) {
                return self.run(&log, &schedule, fired, false).await;
            }
        }
        Ok(alive.map_or(Ticked::Nothing, |run| Ticked::Busy { run }))
    }

    /// Enters that a run cannot begin, once for its instant.
    async fn refused(&self, log: &ScheduleLog, fired: &Fired, error: &Error) -> Result<()> {
        let (planned, why) = (fired.planned, fired.why);
        let reason = error.message.chars().take(REASON_CHARS_MAX).collect::<String>();
        let event = |state: &ScheduleState| {
            let is_new = state.refused != Some(planned) && state.open.is_none();
            let reason = reason.clone();
            Ok(is_new.then_some(ScheduleEvent::Refused { planned, why, reason }))
        };
        log.append(&writer_name(self.store), event).await?;
        Ok(())
    }

    async fn standing(&self, run: &RunId) -> Result<Standing> {
        // The sign of life first: a run that ends in between is found ended.
        let life = life(self.store, &Claimed::run(run)).await?;
        let summary = summary(self.store, run).await?;
        Ok(match (summary.outcome.map(Ending::from), life) {
            (_, Life::Alive) => Standing::Alive,
            (Some(how @ Ending::Succeeded), _) if summary.manifest.is_some() => {
                Standing::Ended(how)
            }
            (Some(how @ Ending::Failed), _) => Standing::Ended(how),
            _ => Standing::Dead { has_begun: summary.started_at.is_some() },
        })
    }

    /// Judges a run that has ended, if the schedule has a gate, and enters its end.
    async fn ended(
        &self,
        log: &ScheduleLog,
        schedule: Option<&Schedule>,
        run: &RunId,
        Night { mut how, requests, sampled }: Night,
    ) -> Result<(Ending, Option<VerdictWord>)> {
        let other = sampled.iter().find(|it| it.is_local && it.differ > 0);
        let gate = schedule.and_then(|schedule| schedule.gate.as_ref());
        // Before the end is entered: a process that dies in between leaves a run to judge.
        let verdict = match (other, gate) {
            (Some(other), _) => {
                how = Ending::Failed;
                self.environment.output.remark(format!(
                    "run {run}: {} of stage `{}`, computed once more by this machine, {} of {} differ: \
                     the night fails, and no gate judges it",
                    plural(other.again as usize, "answer"),
                    other.stage,
                    other.differ,
                    other.again,
                ));
                None
            }
            (None, Some(gate)) => Some(self.judge(gate, run).await?),
            (None, None) => None,
        };
        let event = |state: &ScheduleState| {
            let is_open = state.open.as_ref().is_some_and(|open| open.run == *run);
            let sampled = sampled.clone();
            let end = || ScheduleEvent::Ended { run: run.clone(), how, verdict, requests, sampled };
            Ok(is_open.then(end))
        };
        log.append(&writer_name(self.store), event).await?;
        Ok((how, verdict))
    }

    /// What the gate says of a run.
    async fn judge(&self, gate: &Gate, run: &RunId) -> Result<VerdictWord> {
        let candidate = summary(self.store, run).await?;
        let pinned = || format!("{}@{BASELINE}", candidate.pipeline);
        let wanted = gate.baseline.clone().unwrap_or_else(pinned).parse()?;
        let baseline = baseline_run(&wanted, self.environment, self.store).await?;
        let judged = self.environment.host.judge(gate, baseline.as_ref(), &candidate, self.store);
        match judged.await {
            Ok(entered) => Ok(entered.verdict.judgement.word),
            Err(NoVerdict::Failed(error)) => Err(error),
            // The pipeline had it when the run was fired: the next nights are not held up.
            Err(NoVerdict::WrongGate(wrong)) => {
                let message = format!("run {run}: the gate cannot judge: {}", wrong.message);
                self.environment.output.remark(message);
                Ok(VerdictWord::NotComparable)
            }
        }
    }

    /// Runs what another process fired and did not finish.
    async fn go_on(
        &self,
        log: &ScheduleLog,
        state: &ScheduleState,
        open: Fired,
        has_begun: bool,
    ) -> Result<Ticked> {
        let Some(schedule) = &state.schedule else { return Ok(Ticked::Nothing) };
        self.environment.output.remark(match has_begun {
            true => format!("schedule `{}`: resuming run {}", self.name, open.run),
            false => {
                format!("schedule `{}`: beginning run {}, which was fired", self.name, open.run)
            }
        });
        self.run(log, schedule, open, has_begun).await
    }

    /// Whether the pipeline can be prepared, and has the metrics of the gate.
    async fn check(&self, schedule: &Schedule) -> Result<()> {
        let engine = self.environment.host.engine(self.store, &self.environment.host.new_run())?;
        let environment = self.environment;
        let pipeline = pipeline(schedule, environment.host.clock().now());
        let loaded = environment.load_from_store(&pipeline, &engine, self.store).await?;
        let wrong = schedule.gate.as_ref().and_then(|gate| unknown_metric(gate, &loaded));
        match wrong {
            None => Ok(()),
            Some(wrong) => {
                let message = format!("the gate of `{}`: {}", self.name, wrong.message);
                let error = Error::new(ErrorKind::Pipeline, message);
                Err(wrong.help.into_iter().fold(error, Error::with_hint))
            }
        }
    }

    async fn run(
        &self,
        log: &ScheduleLog,
        schedule: &Schedule,
        fired: Fired,
        is_resumed: bool,
    ) -> Result<Ticked> {
        let Fired { planned, run, .. } = &fired;
        let environment = self.environment;
        let engine = environment.host.engine_of_run(self.store, run, schedule.workers)?;
        let pipeline = pipeline(schedule, *planned);
        let loaded = environment.load_from_store(&pipeline, &engine, self.store).await?;
        let budget = schedule.budget.as_deref().map(str::parse).transpose().map_err(|error| {
            Error::new(ErrorKind::Usage, format!("schedule `{}`: {error}", self.name))
        })?;
        let has_endpoints = loaded.engine.models().has_endpoints();
        let start = RunStart {
            loaded,
            path: schedule.pipeline.clone(),
            choice: Choice::default(),
            run: run.clone(),
            is_resumed,
            trigger: Trigger::Schedule { name: self.name.clone(), planned: *planned },
            copies: Copies::All,
            replay: None,
            budget,
        };
        let (host, stop) = (&environment.host, self.stop.clone());
        let ended = host.run(start, self.store.clone(), self.display.observer(), stop);
        let ended = match self.display.during(host.clock(), Box::pin(ended)).await {
            Ok(ended) => ended,
            // Another process was faster, or the run cannot go on as it began.
            Err(error) => return self.not_run(log, schedule, &fired, is_resumed, error).await,
        };
        let how = Ending::from(ended.result.outcome);
        let answers = || ended.result.models.values().map(|usage| usage.answers).sum();
        let requests = has_endpoints.then(answers);
        if self.stop.is_cancelled() && how == Ending::Stopped {
            return Ok(Ticked::Left { run: run.clone() });
        }
        if let Some(error) = &ended.result.error {
            environment.output.remark(format!("run {run}: {error}"));
        }
        let sampled = match how {
            Ending::Succeeded => self.sampled(log, schedule, *planned, run).await?,
            _ => Vec::new(),
        };
        let night = Night { how, requests, sampled };
        let (how, verdict) = self.ended(log, Some(schedule), run, night).await?;
        Ok(Ticked::Ran { fired, how, verdict })
    }

    /// Has shares of the answers of a run given once more: by endpoints, as the generation of its instant, and by models of this
    /// machine.
    async fn sampled(
        &self,
        log: &ScheduleLog,
        schedule: &Schedule,
        planned: DateTime<Utc>,
        run: &RunId,
    ) -> Result<Vec<SampledStage>> {
        let run = summary(self.store, run).await?;
        let (host, word) = (&self.environment.host, generation(planned));
        let mut sampled = Vec::new();
        if let Ask::Sample(share) = schedule.ask {
            let again = Box::pin(host.sample(&run, share, &word, self.store));
            sampled = self.unless_stopped(&run, again).await;
            let has_sample = |it: &ScheduleEntry| match &it.event {
                ScheduleEvent::Ended { sampled, .. } => sampled.iter().any(|it| !it.is_local),
                _ => false,
            };
            if let Some(ScheduleEntry {
                event: ScheduleEvent::Ended { sampled: last, .. }, ..
            }) = log.latest(1, has_sample).await?.first()
            {
                sampled.iter_mut().for_each(|it| it.compare_names(last));
            }
        }
        if let Some(share) = schedule.recompute {
            let again = Box::pin(host.recompute(&run, share, &word, self.store));
            sampled.extend(self.unless_stopped(&run, again).await);
        }
        Ok(sampled)
    }

    /// What comes of answers that are to be given once more. A run is what it is: a sample that cannot be had is said, and decides
    /// nothing.
    async fn unless_stopped(
        &self,
        run: &RunSummary,
        again: impl Future<Output = Result<Vec<SampledStage>>>,
    ) -> Vec<SampledStage> {
        let sampled = tokio::select! {
            sampled = again => sampled,
            () = self.stop.cancelled() => Err(Error::new(ErrorKind::Interrupted, "stopped")),
        };
        sampled.unwrap_or_else(|error| {
            let message = format!("run {}: no sample of its answers: {error}", run.run);
            self.environment.output.remark(message);
            Vec::new()
        })
    }

    async fn not_run(
        &self,
        log: &ScheduleLog,
        schedule: &Schedule,
        fired: &Fired,
        is_resumed: bool,
        error: Error,
    ) -> Result<Ticked> {
        match self.standing(&fired.run).await? {
            Standing::Alive | Standing::Ended(_) => Ok(Ticked::Busy { run: fired.run.clone() }),
            Standing::Dead { .. } if is_resumed && error.kind == ErrorKind::Usage => {
                // The pipeline is another one now: what it began stays as it was.
                self.environment.output.remark(format!("run {} cannot go on: {error}", fired.run));
                let night = Night::of(Ending::Killed);
                let (how, verdict) = self.ended(log, Some(schedule), &fired.run, night).await?;
                Ok(Ticked::Ran { fired: fired.clone(), how, verdict })
            }
            Standing::Dead { .. } => Err(error),
        }
    }

    fn remark_skipped(&self, instants: &Skipped) {
        self.environment.output.remark(format!("schedule `{}`: {}", self.name, skipped(instants)));
    }
}

/// The pipeline of a schedule for an instant, which is the word under which endpoints answer anew.
fn pipeline(schedule: &Schedule, planned: DateTime<Utc>) -> Pipeline {
    let params: Vec<(String, String)> =
        schedule.params.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
    let generation = (schedule.ask == Ask::All).then(|| generation(planned));
    Pipeline { generation, ..Pipeline::with(schedule.pipeline.as_ref(), &params) }
}

/// The generation of the answers of a planned instant.
fn generation(planned: DateTime<Utc>) -> String {
    planned.format("%Y%m%dt%H%M%S%3fz").to_string()
}
