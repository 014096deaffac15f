//! What is known of a schedule, and the closed set of events that change it.

use chrono::{DateTime, Utc};
use proofmill_base::ids::{RunId, StageName};
use proofmill_catalog::audit::entry::{Ending, VerdictWord};
use serde::{Deserialize, Serialize};

use crate::alerts::{AlertState, Night};
use crate::file::Schedule;

/// What is known of a schedule after an entry of its log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleState {
    /// The schedule as it was applied last; `None` before that.
    pub schedule: Option<Schedule>,
    /// Why it is paused, if it is.
    pub paused: Option<Pause>,
    /// Planned instants up to this one have been decided.
    pub decided: Option<DateTime<Utc>>,
    /// The last instant that could not begin, if one could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<DateTime<Utc>>,
    /// The run that was fired last, as long as its end is not known.
    pub open: Option<Fired>,
    /// Instants that wait for its end, in the order in which they run.
    pub waiting: Vec<Waiting>,
    /// Conditions that hold, and messages that are to be sent.
    #[serde(default, skip_serializing_if = "AlertState::is_empty")]
    pub alerts: AlertState,
}

/// Who paused a schedule, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    pub since: DateTime<Utc>,
    pub reason: String,
}

/// A run that was fired. Its identity is reserved before it begins, so that a process that dies in between leaves a run to
/// begin and not one to repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fired {
    /// The instant that it is for.
    pub planned: DateTime<Utc>,
    pub why: Why,
    pub run: RunId,
}

/// An instant that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    pub planned: DateTime<Utc>,
    pub why: Why,
}

/// Why a run was fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It was due.
    Due,
    /// `schedule trigger`.
    Triggered,
    /// `schedule backfill`.
    Backfilled,
}

/// Planned instants of which no run comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    pub first: DateTime<Utc>,
    pub last: DateTime<Utc>,
    /// How many there are, these two included.
    pub count: u64,
    pub reason: SkipReason,
}

/// Why no run came of an instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// No process looked in time.
    Missed,
    /// A later instant ran instead.
    Superseded { by: DateTime<Utc> },
    /// An earlier run had not ended.
    Overlap { run: RunId },
    /// The schedule was paused.
    Paused,
    /// The schedule was changed before a process looked.
    Edited,
}

/// Answers of a stage that were requested or computed once more, and compared with those that the run has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledStage {
    pub stage: StageName,
    /// The models that it asks, by their names in the file.
    pub models: Vec<String>,
    /// Whether models of this machine computed them, bit for bit; else endpoints gave texts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_local: bool,
    /// Answers that came again.
    pub again: u64,
    /// Those of them that are other ones.
    pub differ: u64,
    /// Requests of the sample that had no answer this time.
    pub failed: u64,
    /// What the endpoints call themselves in the answers.
    pub reported: Vec<String>,
    /// What they called themselves in the last sample before, if that was something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported_before: Vec<String>,
    /// Some of those that differ.
    pub examples: Vec<ChangedAnswer>,
}

impl SampledStage {
    /// Notes what the endpoints called themselves in the sample before, if that was something else.
    pub fn compare_names(&mut self, before: &[Self]) {
        let before = before.iter().find(|it| it.stage == self.stage && !it.is_local);
        let Some(before) = before.filter(|it| !it.reported.is_empty() && !self.reported.is_empty())
        else {
            return;
        };
        if before.reported != self.reported {
            self.reported_before.clone_from(&before.reported);
        }
    }
}

/// An answer that is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangedAnswer {
    pub row: String,
    /// The beginning of each.
    pub before: String,
    pub now: String,
}

/// What an entry of the log of a schedule says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScheduleEvent {
    /// A file was applied, and counts from then on.
    Applied {
        schedule: Box<Schedule>,
        /// Instants of the schedule before that no process had looked at.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<Skipped>,
        at: DateTime<Utc>,
    },
    Paused {
        pause: Pause,
        /// Instants that waited, or that no process had looked at.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<Skipped>,
    },
    /// It is no longer paused; paused time is not made up.
    Resumed {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<Skipped>,
        at: DateTime<Utc>,
    },
    Decided(Decided),
    /// A run cannot begin: its instant stays due until it can, or is missed.
    Refused {
        planned: DateTime<Utc>,
        why: Why,
        reason: String,
    },
    /// A run that was fired has ended.
    Ended {
        run: RunId,
        how: Ending,
        /// What the gate of the schedule says of it, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<VerdictWord>,
        /// Requests that endpoints answered, where the pipeline has any: with none, the night says nothing about them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requests: Option<u64>,
        /// What came of the answers that were requested or computed once more, stage by stage.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sampled: Vec<SampledStage>,
    },
    /// Instants are to run that are not due: now, or again.
    Requested {
        waiting: Vec<Waiting>,
    },
    /// A process sends a message of the alerts, which no other does for a while.
    Sending {
        message: u64,
        at: DateTime<Utc>,
    },
    /// A message was sent: to all receivers but those `left`.
    Sent {
        message: u64,
        left: Vec<usize>,
    },
}

/// What became of instants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Instants up to this one are decided.
    pub through: DateTime<Utc>,
    /// The run that begins now, if one does.
    pub fired: Option<Fired>,
    /// Those that wait from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// The earlier run, if it is to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<RunId>,
}

impl ScheduleState {
    /// The state after an event.
    pub fn after(&self, event: &ScheduleEvent) -> Self {
        let mut next = self.clone();
        let later = |at: &DateTime<Utc>| Some(self.decided.map_or(*at, |decided| decided.max(*at)));
        match event {
            ScheduleEvent::Applied { schedule, at, .. } => {
                next.schedule = Some(schedule.as_ref().clone());
                next.alerts.changed(schedule.alerts.as_ref());
                next.decided = later(at);
            }
            ScheduleEvent::Paused { pause, .. } => {
                next.decided = later(&pause.since);
                next.paused = Some(pause.clone());
                next.waiting.clear();
            }
            ScheduleEvent::Resumed { at, .. } => {
                next.paused = None;
                next.decided = later(at);
            }
            ScheduleEvent::Decided(decided) => {
                next.decided = later(&decided.through);
                next.waiting = decided.waiting.clone();
                if let Some(fired) = &decided.fired {
                    next.open = Some(fired.clone());
                }
            }
            ScheduleEvent::Ended { run, how, verdict, .. } => {
                if let Some(open) = next.open.take_if(|open| open.run == *run) {
                    let night = Night {
                        planned: open.planned,
                        run: Some(run),
                        how: *how,
                        verdict: *verdict,
                    };
                    next.take_note(open.why, night);
                }
            }
            ScheduleEvent::Refused { planned, why, .. } => {
                next.refused = Some(*planned);
                let night =
                    Night { planned: *planned, run: None, how: Ending::NotBegun, verdict: None };
                next.take_note(*why, night);
            }
            ScheduleEvent::Requested { waiting } => next.waiting.extend(waiting),
            ScheduleEvent::Sending { message, at } => next.alerts.claim(*message, *at),
            ScheduleEvent::Sent { message, left } => next.alerts.sent(*message, left),
        }
        next
    }

    /// Has the alerts take note of a night. One of the past that runs again is not a new one.
    fn take_note(&mut self, why: Why, night: Night<'_>) {
        let alerts = self.schedule.as_ref().and_then(|it| it.alerts.clone());
        if let Some(alerts) = alerts.filter(|_| why != Why::Backfilled) {
            self.alerts.night(&alerts, night);
        }
    }
}
