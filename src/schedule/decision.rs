//! What becomes of planned instants: fired, waiting, or skipped with a reason. Pure: the clock and the identity of the run
//! are given.

use chrono::{DateTime, TimeDelta, Utc};
use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;

use crate::calendar::CalendarError;
use crate::file::{Missed, Overlap, Schedule};
use crate::state::{
    Decided, Fired, Pause, ScheduleEvent, ScheduleState, SkipReason, Skipped, Waiting, Why,
};

/// An instant that is no later than this was not missed, in seconds: processes look at least twice in it.
const ON_TIME_SECONDS: i64 = 300;

/// What is due now: `None` if nothing is to be decided. A run that is fired gets the identity `run`.
///
/// # Errors
///
/// If the calendar cannot be read.
pub fn decide(
    state: &ScheduleState,
    now: DateTime<Utc>,
    run: &RunId,
) -> Result<Option<Decided>, CalendarError> {
    let (Some(schedule), Some(decided)) = (&state.schedule, state.decided) else { return Ok(None) };
    if state.paused.is_some() {
        return Ok(None);
    }
    let due = due(schedule, decided, now)?;
    let through = due.last().copied().unwrap_or(decided);
    let mut skipped = Vec::new();
    let mut skip = |instants: &[DateTime<Utc>], reason: &SkipReason| {
        skipped.extend(range(instants, reason.clone()));
    };
    // Those that waited grow old too.
    let (kept, old): (Vec<Waiting>, Vec<Waiting>) = state.waiting.iter().partition(|waiting| {
        waiting.why != Why::Due || lateness(schedule, waiting.planned, now) <= window(schedule)
    });
    let old: Vec<DateTime<Utc>> = old.iter().map(|waiting| waiting.planned).collect();
    skip(&old, &SkipReason::Missed);
    let mut waiting = kept;
    let (missed, runs) = timely(schedule, &due, now);
    match (schedule.missed, runs.last()) {
        (Missed::Latest, Some(by)) => skip(missed, &SkipReason::Superseded { by: *by }),
        _ => skip(missed, &SkipReason::Missed),
    }
    let new = runs.iter().map(|planned| Waiting { planned: *planned, why: Why::Due });
    let mut stop = None;
    match (&state.open, schedule.overlap) {
        // Those that are made up wait for each other.
        _ if matches!(schedule.missed, Missed::All(_)) => waiting.extend(new),
        (None, _) => waiting.extend(new),
        (Some(open), Overlap::Skip) => {
            skip(runs, &SkipReason::Overlap { run: open.run.clone() });
        }
        (Some(open), Overlap::Queue | Overlap::Cancel) => {
            if let Some(by) = runs.last() {
                let superseded = |waiting: &Waiting| waiting.why == Why::Due;
                let (before, others): (Vec<Waiting>, Vec<Waiting>) =
                    waiting.into_iter().partition(superseded);
                let mut before: Vec<DateTime<Utc>> = before.iter().map(|it| it.planned).collect();
                before.extend(&runs[..runs.len() - 1]);
                skip(&before, &SkipReason::Superseded { by: *by });
                waiting = others;
                waiting.push(Waiting { planned: *by, why: Why::Due });
                stop = (schedule.overlap == Overlap::Cancel).then(|| open.run.clone());
            }
        }
    }
    let mut fired = None;
    if state.open.is_none() && !waiting.is_empty() {
        let Waiting { planned, why } = waiting.remove(0);
        fired = Some(Fired { planned, why, run: run.clone() });
    }
    let decided = Decided { through, fired, waiting, skipped, stop };
    let is_nothing = decided.fired.is_none() && decided.skipped.is_empty() && due.is_empty();
    Ok((!is_nothing).then_some(decided))
}

/// The event that applies a schedule.
///
/// # Errors
///
/// If the calendar of the schedule before cannot be read.
pub fn apply(
    state: &ScheduleState,
    schedule: Schedule,
    at: DateTime<Utc>,
) -> Result<ScheduleEvent, CalendarError> {
    let reason = if state.paused.is_some() { SkipReason::Paused } else { SkipReason::Edited };
    let skipped = undecided(state, at, reason)?;
    Ok(ScheduleEvent::Applied { schedule: Box::new(schedule), skipped, at })
}

/// The event that pauses a schedule.
///
/// # Errors
///
/// As [`apply`].
pub fn pause(
    state: &ScheduleState,
    reason: String,
    since: DateTime<Utc>,
) -> Result<ScheduleEvent, CalendarError> {
    let waited: Vec<DateTime<Utc>> = state.waiting.iter().map(|it| it.planned).collect();
    let mut skipped: Vec<Skipped> = range(&waited, SkipReason::Paused).into_iter().collect();
    skipped.extend(undecided(state, since, SkipReason::Missed)?);
    Ok(ScheduleEvent::Paused { pause: Pause { since, reason }, skipped })
}

/// The event that ends a pause.
///
/// # Errors
///
/// As [`apply`].
pub fn resume(state: &ScheduleState, at: DateTime<Utc>) -> Result<ScheduleEvent, CalendarError> {
    Ok(ScheduleEvent::Resumed { skipped: undecided(state, at, SkipReason::Paused)?, at })
}

/// When the run of a planned instant begins: shifted by the same part of the jitter in every process.
pub fn begins(schedule: &Schedule, planned: DateTime<Utc>) -> DateTime<Utc> {
    if schedule.jitter_seconds == 0 {
        return planned;
    }
    let text = format!("{}\n{}", schedule.name, planned.timestamp());
    let mut first = [0; 8];
    first.copy_from_slice(&Digest::of(text.as_bytes()).as_bytes()[..8]);
    let shift = u64::from_be_bytes(first) % schedule.jitter_seconds;
    let shift = TimeDelta::seconds(i64::try_from(shift).unwrap_or(0));
    planned.checked_add_signed(shift).unwrap_or(planned)
}

/// The instants after `decided` whose time has come, in order.
fn due(
    schedule: &Schedule,
    decided: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Vec<DateTime<Utc>>, CalendarError> {
    let calendar = schedule.calendar(decided)?;
    let planned = calendar.between(decided, now).map(|planned| planned.instant);
    Ok(planned.take_while(|planned| begins(schedule, *planned) <= now).collect())
}

/// Instants that were planned up to `at` and not decided, as skipped.
fn undecided(
    state: &ScheduleState,
    at: DateTime<Utc>,
    reason: SkipReason,
) -> Result<Vec<Skipped>, CalendarError> {
    let (Some(schedule), Some(decided)) = (&state.schedule, state.decided) else {
        return Ok(Vec::new());
    };
    let planned = schedule.calendar(decided)?;
    let planned: Vec<DateTime<Utc>> = planned.between(decided, at).map(|it| it.instant).collect();
    Ok(range(&planned, reason).into_iter().collect())
}

fn lateness(schedule: &Schedule, planned: DateTime<Utc>, now: DateTime<Utc>) -> TimeDelta {
    now - begins(schedule, planned)
}

fn window(schedule: &Schedule) -> TimeDelta {
    let seconds = i64::try_from(schedule.window_seconds).unwrap_or(i64::MAX);
    TimeDelta::try_seconds(seconds).unwrap_or(TimeDelta::MAX)
}

/// Parts instants that are due: those that do not run, and those that do.
fn timely<'a>(
    schedule: &Schedule,
    due: &'a [DateTime<Utc>],
    now: DateTime<Utc>,
) -> (&'a [DateTime<Utc>], &'a [DateTime<Utc>]) {
    let (most, allowed) = match schedule.missed {
        Missed::Latest => (1, window(schedule)),
        Missed::None => (1, window(schedule).min(TimeDelta::seconds(ON_TIME_SECONDS))),
        Missed::All(most) => (most as usize, window(schedule)),
    };
    let fresh = due.iter().filter(|it| lateness(schedule, **it, now) <= allowed).count();
    due.split_at(due.len() - fresh.min(most))
}

fn range(instants: &[DateTime<Utc>], reason: SkipReason) -> Option<Skipped> {
    let (first, last) = (instants.first()?, instants.last()?);
    Some(Skipped { first: *first, last: *last, count: instants.len() as u64, reason })
}
