//! What a run would do, stage by stage, and what it may need.

use std::time::Duration;

use indexmap::IndexMap;
use serde::Serialize;

use crate::report::units::{bytes, count, duration, plural};
use crate::run::estimate::Estimate;
use crate::run::planned::{PlannedAction, PlannedStage, RunPlan};
use crate::run::reason::{Change, Reason};
use crate::stages::plan::Prepared;
use crate::views::section::{Grid, Section, View};
use proofmill_base::ids::{Fingerprint, StageName};

/// The stages of a pipeline, in the order in which they can run.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct PlanView(Vec<PlanLine>);

/// What a run would do with a stage.
#[derive(Clone, Debug, Serialize)]
pub struct PlanLine {
    stage: StageName,
    kind: &'static str,
    action: Action,
    reason: String,
    /// The parts of its fingerprint that are not what they were, if that is the reason.
    changes: Vec<Change>,
    fingerprint: Fingerprint,
    /// What its table has, or may have.
    rows: Option<u64>,
    bytes: Option<u64>,
    /// Requests to models, and those whose answer the ledger has.
    requests: Option<u64>,
    recorded: Option<u64>,
    tokens: Option<u64>,
    seconds: Option<f64>,
    /// Whether it asks a model, whatever is known of that.
    #[serde(skip)]
    asks: bool,
}

/// What a run would do with a stage, as `plan` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Cached,
    Revalidate,
    Run,
    Skip,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Revalidate => "revalidate",
            Self::Run => "run",
            Self::Skip => "skip",
        }
    }
}

impl From<&PlannedAction> for Action {
    fn from(action: &PlannedAction) -> Self {
        match action {
            PlannedAction::Cached(_) => Self::Cached,
            PlannedAction::Revalidate(_) => Self::Revalidate,
            PlannedAction::Run => Self::Run,
            PlannedAction::Skip => Self::Skip,
        }
    }
}

impl PlanView {
    /// Of a plan, with what is expected of each of its stages.
    pub fn of(
        prepared: &Prepared,
        plan: &RunPlan,
        estimates: &IndexMap<&StageName, Estimate>,
    ) -> Self {
        let line = |(name, stage): (&StageName, &PlannedStage)| {
            let kind = prepared.stages[name].stage.spec.kind.name();
            PlanLine::of(name, kind, stage, &estimates[name])
        };
        Self(plan.stages.iter().map(line).collect())
    }

    /// What stands beside it: how many stages would run, and what all of them need.
    pub fn remarks(&self) -> Vec<String> {
        let of = |action| self.0.iter().filter(|line| line.action == action).count();
        let pending = match of(Action::Revalidate) {
            0 => String::new(),
            n => format!(", {n} more if an input changes"),
        };
        let (run, cached) = (plural(of(Action::Run), "stage"), of(Action::Cached));
        let stages = format!("\n{run} would run{pending}, {cached} in the store");
        [stages].into_iter().chain(self.in_all()).collect()
    }

    /// What all stages estimate together, as far as their last time tells; `None` if that is
    /// nothing worth showing.
    fn in_all(&self) -> Option<String> {
        let sum = |of: fn(&PlanLine) -> Option<u64>| {
            self.0.iter().filter_map(of).fold(0, u64::saturating_add)
        };
        let (requests, tokens) = (sum(|it| it.requests), sum(|it| it.tokens));
        let recorded = sum(|it| it.recorded);
        let time = self.0.iter().filter_map(PlanLine::time);
        let time = time.fold(Duration::ZERO, Duration::saturating_add);
        let unknown = self.0.iter().filter(|it| it.asks && it.requests.is_none()).count();
        let mut parts = Vec::new();
        if requests > 0 {
            let has = known(Some(recorded));
            parts.push(format!("about {}{has}", plural(requests as usize, "request")));
        }
        if tokens > 0 {
            parts.push(format!("about {} tokens", count(tokens)));
        }
        if time >= Duration::from_secs(1) {
            let time = duration(time);
            parts.push(format!(
                "about {time} one stage after the other, at the speed of the last run"
            ));
        }
        if unknown > 0 && requests > 0 {
            let stages = plural(unknown, "stage");
            parts.push(format!("requests of {stages} more are unknown before its first run"));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// How many requests the ledger has, behind how many there are.
fn known(recorded: Option<u64>) -> String {
    let recorded = recorded.filter(|recorded| *recorded > 0);
    recorded.map(|recorded| format!(", {} recorded", count(recorded))).unwrap_or_default()
}

impl View for PlanView {
    fn sections(&self) -> Vec<Section> {
        // Only where a stage has something in them.
        let has_requests = self.0.iter().any(|it| it.requests.is_some());
        let has_time = self.0.iter().any(|it| it.slow().is_some());
        let mut header = vec!["stage", "kind", "action", "rows", "bytes"];
        if has_requests {
            header.extend(["requests", "tokens"]);
        }
        if has_time {
            header.push("time");
        }
        header.push("because");
        let numbers = ["rows", "bytes", "requests", "tokens", "time"];
        let cells = |line: &PlanLine| line.cells(has_requests, has_time);
        let rows = self.0.iter().map(cells).collect();
        vec![Section::Table(Grid::new(&header, &numbers, rows))]
    }
}

impl PlanLine {
    fn of(name: &StageName, kind: &'static str, stage: &PlannedStage, estimate: &Estimate) -> Self {
        let changes = match &stage.reason {
            Reason::Changed(changes) => changes.clone(),
            _ => Vec::new(),
        };
        Self {
            stage: name.clone(),
            kind,
            action: Action::from(&stage.action),
            reason: stage.reason.to_string(),
            changes,
            fingerprint: stage.fingerprint,
            rows: estimate.rows,
            bytes: estimate.bytes,
            requests: estimate.requests,
            recorded: estimate.recorded,
            tokens: estimate.tokens,
            seconds: estimate.time.map(|time| time.as_secs_f64()),
            asks: estimate.asks,
        }
    }

    fn time(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.seconds?).ok()
    }

    /// How long it runs, if that is worth showing.
    fn slow(&self) -> Option<Duration> {
        self.time().filter(|time| *time >= Duration::from_secs(1))
    }

    fn cells(&self, has_requests: bool, has_time: bool) -> Vec<String> {
        let about = if self.action == Action::Cached { "" } else { "~" };
        let text =
            |value: Option<String>| value.map(|it| format!("{about}{it}")).unwrap_or_default();
        let reason = match self.action {
            Action::Skip => "it is not selected",
            _ => &self.reason,
        };
        let mut cells = vec![
            self.stage.to_string(),
            self.kind.to_owned(),
            self.action.name().to_owned(),
            text(self.rows.map(count)),
            text(self.bytes.map(bytes)),
        ];
        if has_requests {
            let requests = self.requests.map(|requests| count(requests) + &known(self.recorded));
            cells.extend([text(requests), text(self.tokens.map(count))]);
        }
        if has_time {
            cells.push(text(self.slow().map(duration)));
        }
        cells.push(reason.to_owned());
        cells
    }
}
