//! Schedules: when they are due, what became of their instants.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use proofmill_base::error::Result;
use proofmill_base::ids::{PipelineName, RunId};
use proofmill_base::styled::printable;
use proofmill_catalog::audit::entry::{Ending, VerdictWord};
use proofmill_catalog::progress::RunProgress;
use proofmill_schedule::alerts::{Condition, OpenAlert};
use proofmill_schedule::calendar::{Calendar, Planned, Wall};
use proofmill_schedule::file::Schedule;
use proofmill_schedule::log::{ScheduleEntry, ScheduleLog};
use proofmill_schedule::state::{
    Fired, Pause, SampledStage, ScheduleEvent, SkipReason, Skipped, Why,
};
use proofmill_store::{Claimed, Life, Store, life};
use proofmill_udfs::stats;
use serde::Serialize;

use crate::draw::cells::format_float;
use crate::report::units::{date_and_time, plural};
use crate::views::runs::state_cell;
use crate::views::section::{Grid, Section, View};
use crate::views::verdict::NOTHING_SAID;

/// Schedules of a store.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct StatusView(pub Vec<ScheduleStatus>);

/// How a schedule stands.
#[derive(Clone, Debug, Serialize)]
pub struct ScheduleStatus {
    pub name: PipelineName,
    pub pipeline: String,
    pub cron: String,
    pub timezone: String,
    /// The next planned instant; `None` while it is paused.
    pub next: Option<DateTime<Utc>>,
    /// Instants that wait for the open run to end.
    pub waiting: usize,
    pub open: Option<Fired>,
    /// Whether the process of the open run is there; a tick resumes a run whose process is not.
    pub is_alive: bool,
    /// How far the open run is, if its process is there and has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
    pub last: Option<LastRun>,
    /// The last run that succeeded.
    pub last_good: Option<LastRun>,
    pub paused: Option<Pause>,
    /// Conditions of which a message was sent and that are not over.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub alerts: BTreeMap<Condition, OpenAlert>,
    /// Messages that some receiver does not have.
    pub unsent: usize,
}

/// A run of a schedule that ended.
#[derive(Clone, Debug, Serialize)]
pub struct LastRun {
    pub planned: DateTime<Utc>,
    pub run: RunId,
    pub how: Ending,
    /// What the gate of the schedule said, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictWord>,
    /// Requests that endpoints answered, if the pipeline has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// The sample of answers that was requested once more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<SampledStage>,
}

impl LastRun {
    /// Of the entry of a run that ended; `None` of another.
    pub fn of(ended: &ScheduleEntry) -> Option<Self> {
        let open = ended.before.open.as_ref()?;
        let ScheduleEvent::Ended { how, verdict, requests, sampled, .. } = &ended.event else {
            return None;
        };
        let (planned, run) = (open.planned, open.run.clone());
        let (how, verdict, requests, sampled) = (*how, *verdict, *requests, sampled.clone());
        Some(Self { planned, run, how, verdict, requests, sampled })
    }
}

impl ScheduleStatus {
    /// Of a schedule of the store.
    ///
    /// # Errors
    ///
    /// If its log is broken, or the store fails.
    pub async fn of(store: &Store, name: &PipelineName, now: DateTime<Utc>) -> Result<Self> {
        let log = ScheduleLog::of(store, name);
        let state = log.head().await?.state;
        let schedule = state.schedule.as_ref();
        let from = state.decided.map_or(now, |decided| decided.max(now));
        let calendar = schedule.and_then(|schedule| schedule.calendar(from).ok());
        let next = calendar.as_ref().and_then(|calendar| calendar.after(from).next());
        let ends = log.latest(1, |it| matches!(it.event, ScheduleEvent::Ended { .. })).await?;
        // A night of the past that ran again is not a new one.
        let is_new = |it: &ScheduleEntry| {
            it.before.open.as_ref().is_some_and(|open| open.why != Why::Backfilled)
        };
        let is_good =
            |it: &ScheduleEvent| matches!(it, ScheduleEvent::Ended { how: Ending::Succeeded, .. });
        let good = log.latest(1, |it| is_good(&it.event) && is_new(it)).await?;
        let (mut is_alive, mut progress) = (false, None);
        if let Some(open) = &state.open {
            is_alive = life(store, &Claimed::run(&open.run)).await? != Life::Dead;
            progress = RunProgress::of(store, &open.run).await?.filter(|_| is_alive);
        }
        Ok(Self {
            name: name.clone(),
            pipeline: schedule.map(|it| it.pipeline.clone()).unwrap_or_default(),
            cron: schedule.map(|it| it.cron.clone()).unwrap_or_default(),
            timezone: schedule.map(|it| it.timezone.clone()).unwrap_or_default(),
            next: next.map(|next| next.instant).filter(|_| state.paused.is_none()),
            waiting: state.waiting.len(),
            open: state.open.clone(),
            is_alive,
            progress,
            last: ends.first().and_then(LastRun::of),
            last_good: good.first().and_then(LastRun::of),
            paused: state.paused.clone(),
            unsent: state.alerts.waiting.len(),
            alerts: state.alerts.open,
        })
    }
}

/// `succeeded`, or `succeeded, fail` where a gate judged.
pub fn how(how: Ending, verdict: Option<VerdictWord>) -> String {
    match verdict {
        Some(verdict) => format!("{}, {}", how.word(), verdict.word()),
        None => how.word().to_owned(),
    }
}

/// What came of the sample of the last night, a line for each stage.
fn sampled(status: &ScheduleStatus) -> Vec<String> {
    let line = |it: &SampledStage| format!("{}: {}\n", status.name, sampled_words(it));
    status.last.iter().flat_map(|last| &last.sampled).map(line).collect()
}

/// What came of the answers of a stage that were requested or computed once more.
pub fn sampled_words(it: &SampledStage) -> String {
    let (again, differ) = (it.again, it.differ);
    let what = if it.is_local { "computed" } else { "requested" };
    let share = stats::wilson(differ, again, 0.95).ok().filter(|_| !it.is_local);
    let share = share.map(|it| {
        let percent = |share: f64| format_float(share * 100.0);
        format!(" (95 %: {} to {} % of all)", percent(it.low), percent(it.high))
    });
    let failed = (it.failed > 0).then(|| format!(", {} without answer", it.failed));
    let named = (!it.reported_before.is_empty()).then(|| {
        let names = |all: &[String]| all.join(", ");
        let (now, before) = (names(&it.reported), names(&it.reported_before));
        format!("; the endpoint calls itself {now}, and {before} in the sample before")
    });
    let answers = plural(again as usize, "answer");
    let more: String = [share, failed, named].into_iter().flatten().collect();
    printable(
        &format!("{what} once more, {differ} of {answers} of `{}` differ{more}", it.stage),
        true,
    )
}

/// Conditions of a schedule that are not over, and messages that are not delivered, a line each.
fn alerts(status: &ScheduleStatus) -> Vec<String> {
    let line = |(condition, open): (&Condition, &OpenAlert)| {
        let since = date_and_time(open.planned);
        format!("{}: {} since {since}\n", status.name, condition.word())
    };
    let unsent = (status.unsent > 0).then(|| {
        let messages = plural(status.unsent, "message");
        format!("{}: {messages} of its alerts not delivered yet\n", status.name)
    });
    status.alerts.iter().map(line).chain(unsent).collect()
}

impl View for StatusView {
    fn sections(&self) -> Vec<Section> {
        let time = |time: Option<DateTime<Utc>>| time.map(date_and_time).unwrap_or_default();
        let row = |it: &ScheduleStatus| {
            let last = it.last.as_ref();
            let how = match (&it.open, last) {
                (Some(_), _) if it.is_alive => state_cell("running", it.progress.as_ref()),
                (Some(_), _) => "stopped, to be resumed".to_owned(),
                (None, Some(last)) => how(last.how, last.verdict),
                (None, None) => String::new(),
            };
            let planned = it.open.as_ref().map(|open| open.planned);
            vec![
                it.name.to_string(),
                it.pipeline.clone(),
                format!("{} {}", it.cron, it.timezone),
                time(planned.or_else(|| last.map(|last| last.planned))),
                how,
                time(it.last_good.as_ref().map(|last| last.planned)),
                match &it.paused {
                    Some(pause) => format!("paused: {}", pause.reason),
                    None => time(it.next),
                },
            ]
        };
        let header = ["schedule", "pipeline", "when", "last", "how", "last good", "next"];
        match self.0.is_empty() {
            true => {
                vec![Section::Text("no schedule: `proofmill schedule apply FILE`\n".to_owned())]
            }
            false => {
                let rows = self.0.iter().map(row).collect();
                let is_silent = |it: &&ScheduleStatus| {
                    it.last
                        .as_ref()
                        .is_some_and(|last| last.requests == Some(0) && last.sampled.is_empty())
                };
                let silent = self.0.iter().filter(is_silent);
                let silent = silent.map(|it| format!("{}: {NOTHING_SAID}\n", it.name));
                let silent = silent.chain(self.0.iter().flat_map(sampled));
                let lines: String = silent.chain(self.0.iter().flat_map(alerts)).collect();
                let mut sections = vec![Section::Table(Grid::new(&header, &[], rows))];
                sections.extend((!lines.is_empty()).then_some(Section::Text(lines)));
                sections
            }
        }
    }
}

/// Planned instants.
#[derive(Clone, Debug, Serialize)]
pub struct CalendarView {
    schedule: PipelineName,
    cron: String,
    timezone: String,
    instants: Vec<InstantLine>,
}

#[derive(Clone, Debug, Serialize)]
struct InstantLine {
    planned: DateTime<Utc>,
    /// In the zone of the schedule.
    local: String,
    /// When its run begins.
    begins: DateTime<Utc>,
    /// What the clock of the zone does to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<String>,
}

impl CalendarView {
    /// Of planned instants, each with when its run begins.
    pub fn of(
        schedule: &Schedule,
        calendar: &Calendar,
        instants: Vec<(Planned, DateTime<Utc>)>,
    ) -> Self {
        let line = |(planned, begins): (Planned, DateTime<Utc>)| InstantLine {
            planned: planned.instant,
            local: calendar.local(planned.instant),
            begins,
            clock: match planned.wall {
                Wall::Once => None,
                Wall::Skipped(local) => Some(format!(
                    "{} is skipped: the first instant after it",
                    local.format("%H:%M")
                )),
                Wall::First => Some("comes twice: the first time".to_owned()),
                Wall::Second => Some("comes twice: the second time".to_owned()),
            },
        };
        Self {
            schedule: schedule.name.clone(),
            cron: schedule.cron.clone(),
            timezone: schedule.timezone.clone(),
            instants: instants.into_iter().map(line).collect(),
        }
    }
}

impl View for CalendarView {
    fn sections(&self) -> Vec<Section> {
        let row = |it: &InstantLine| {
            vec![
                it.local.clone(),
                date_and_time(it.planned),
                if it.begins == it.planned { String::new() } else { date_and_time(it.begins) },
                it.clock.clone().unwrap_or_default(),
            ]
        };
        let rows = self.instants.iter().map(row).collect();
        let title = format!("{}: {} in {}", self.schedule, self.cron, self.timezone);
        let grid =
            Grid::new(&["local", "UTC", "begins (jitter)", "clock"], &[], rows).titled(&title);
        vec![Section::Table(grid)]
    }
}

/// What became of planned instants, the latest first.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ScheduleHistoryView(Vec<HistoryLine>);

/// An instant, or several in a row of which the same became.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryLine {
    /// When it was decided.
    at: DateTime<Utc>,
    first: DateTime<Utc>,
    last: DateTime<Utc>,
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    what: String,
}

impl HistoryLine {
    /// The instants at which nothing ran, by an entry.
    pub fn skipped(entry: &ScheduleEntry) -> impl Iterator<Item = Self> + '_ {
        let skipped: &[Skipped] = match &entry.event {
            ScheduleEvent::Applied { skipped, .. }
            | ScheduleEvent::Paused { skipped, .. }
            | ScheduleEvent::Resumed { skipped, .. } => skipped,
            ScheduleEvent::Decided(decided) => &decided.skipped,
            ScheduleEvent::Refused { .. }
            | ScheduleEvent::Ended { .. }
            | ScheduleEvent::Requested { .. }
            | ScheduleEvent::Sending { .. }
            | ScheduleEvent::Sent { .. } => &[],
        };
        skipped.iter().map(|it| Self {
            at: entry.t_utc,
            first: it.first,
            last: it.last,
            count: it.count,
            run: None,
            what: skipped_because(&it.reason),
        })
    }
}

/// What an entry says of planned instants.
pub fn history_lines(entry: &ScheduleEntry) -> Vec<HistoryLine> {
    let at = entry.t_utc;
    let mut lines: Vec<HistoryLine> = HistoryLine::skipped(entry).collect();
    let one = |planned, run: Option<&RunId>, what: String| HistoryLine {
        at,
        first: planned,
        last: planned,
        count: 1,
        run: run.cloned(),
        what,
    };
    match &entry.event {
        ScheduleEvent::Decided(decided) => {
            lines.extend(decided.fired.iter().map(|Fired { planned, why, run }| {
                let what = match why {
                    Why::Due => "fired",
                    Why::Triggered => "fired, triggered",
                    Why::Backfilled => "fired, backfilled",
                };
                one(*planned, Some(run), what.to_owned())
            }));
        }
        ScheduleEvent::Ended { run, how: ended, verdict, .. } => {
            let planned = entry.before.open.as_ref().map_or(at, |open| open.planned);
            lines.push(one(planned, Some(run), how(*ended, *verdict)));
        }
        ScheduleEvent::Refused { planned, reason, .. } => {
            lines.push(one(*planned, None, format!("could not begin: {reason}")));
        }
        _ => {}
    }
    lines
}

impl ScheduleHistoryView {
    pub fn of(entries: &[ScheduleEntry], most: usize) -> Self {
        let mut lines: Vec<HistoryLine> =
            entries.iter().flat_map(|entry| history_lines(entry).into_iter().rev()).collect();
        lines.truncate(most);
        Self(lines)
    }

    /// Of the instants at which nothing ran.
    pub fn of_skipped(entries: &[ScheduleEntry], most: usize) -> Self {
        Self(entries.iter().flat_map(HistoryLine::skipped).take(most).collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl View for ScheduleHistoryView {
    fn sections(&self) -> Vec<Section> {
        let row = |it: &HistoryLine| {
            let planned = match it.count {
                1 => date_and_time(it.first),
                _ => format!("{} to {}", date_and_time(it.first), date_and_time(it.last)),
            };
            vec![
                date_and_time(it.at),
                planned,
                it.count.to_string(),
                it.what.clone(),
                it.run.as_ref().map(ToString::to_string).unwrap_or_default(),
            ]
        };
        let rows = self.0.iter().map(row).collect();
        let header = ["decided", "planned", "instants", "what", "run"];
        vec![Section::Table(Grid::new(&header, &["instants"], rows))]
    }
}

/// Skipped instants in a line.
pub fn skipped(skipped: &Skipped) -> String {
    let because = skipped_because(&skipped.reason);
    match skipped.count {
        1 => format!("the instant {}: {because}", date_and_time(skipped.first)),
        _ => format!(
            "{} from {} to {}: {because}",
            plural(skipped.count as usize, "instant"),
            date_and_time(skipped.first),
            date_and_time(skipped.last)
        ),
    }
}

fn skipped_because(reason: &SkipReason) -> String {
    match reason {
        SkipReason::Missed => "skipped: missed".to_owned(),
        SkipReason::Superseded { by } => format!("superseded by {}", date_and_time(*by)),
        SkipReason::Overlap { run } => format!("skipped: run {run} had not ended"),
        SkipReason::Paused => "skipped: paused".to_owned(),
        SkipReason::Edited => "skipped: the schedule was changed".to_owned(),
    }
}

/// What `schedule tick` came to.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct TickView(pub Vec<(PipelineName, Ticked)>);

/// What one look at a schedule came to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ticked {
    /// Nothing is due.
    Nothing,
    /// A run of another process is not ended.
    Busy { run: RunId },
    /// A run was started, or resumed, and has ended.
    Ran {
        fired: Fired,
        how: Ending,
        /// What the gate of the schedule says, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        verdict: Option<VerdictWord>,
    },
    /// This process was to end during the run: the next one resumes it.
    Left { run: RunId },
}

impl View for TickView {
    fn sections(&self) -> Vec<Section> {
        let line = |(name, ticked): &(PipelineName, Ticked)| match ticked {
            Ticked::Nothing => format!("{name}: nothing is due\n"),
            Ticked::Busy { run } => format!("{name}: run {run} has not ended\n"),
            Ticked::Ran { fired: Fired { planned, run, .. }, how: ended, verdict } => {
                let planned = date_and_time(*planned);
                format!("{name}: run {run} for {planned} {}\n", how(*ended, *verdict))
            }
            Ticked::Left { run } => format!("{name}: run {run} is left to resume\n"),
        };
        vec![Section::Text(self.0.iter().map(line).collect())]
    }
}
