//! `proofmill schedule status`, `next`, `explain` and `history`.

use std::path::Path;

use chrono::{DateTime, Days, TimeDelta, Utc};
use proofmill_schedule::decision::begins;
use proofmill_schedule::file::Schedule;
use proofmill_schedule::log::{ScheduleEntry, ScheduleLog, names};
use proofmill_schedule::state::{ScheduleEvent, Why};
use proofmill_store::Store;

use crate::cli::environment::Environment;
use crate::cli::schedule::args::{ExplainArgs, HistoryArgs, NextArgs, StatusArgs};
use crate::cli::schedule::read::read;
use crate::views::schedule::{
    CalendarView, LastRun, ScheduleHistoryView, ScheduleStatus, StatusView, history_lines,
};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::PipelineName;
use proofmill_base::suggest;
use proofmill_catalog::audit::entry::Ending;

/// Instants that are printed.
const INSTANTS_MAX: usize = 400_000;

/// The schedules that are meant: those named, or all.
///
/// # Errors
///
/// If the store does not have one of them.
pub(super) async fn named_or_all(
    store: &Store,
    named: &[PipelineName],
) -> Result<Vec<PipelineName>> {
    let all = names(store).await?;
    for name in named {
        if !all.contains(name) {
            let error = Error::new(ErrorKind::Usage, format!("the store has no schedule `{name}`"));
            let known = all.iter().map(PipelineName::as_str);
            let help = suggest::help(name.as_str(), known);
            let hint = help.unwrap_or_else(|| {
                "`proofmill schedule apply FILE` puts one into the store".to_owned()
            });
            return Err(error.with_hint(hint));
        }
    }
    Ok(if named.is_empty() { all } else { named.to_vec() })
}

/// Lists schedules; fails if one is too old.
pub async fn status(args: &StatusArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let now = environment.host.clock().now();
    let mut all = Vec::new();
    for name in named_or_all(&store, &args.names).await? {
        all.push(of(&store, &name, now).await?);
    }
    let max_age = args.max_age.and_then(|age| TimeDelta::try_seconds(i64::try_from(age).ok()?));
    let is_old = |status: &&ScheduleStatus| {
        max_age.is_some_and(|max| {
            status.last_good.as_ref().is_none_or(|last| now - last.planned > max)
        })
    };
    let old: Vec<String> = all.iter().filter(is_old).map(|it| format!("`{}`", it.name)).collect();
    let is_empty = all.is_empty();
    environment.output.view(&StatusView(all))?;
    match (old.as_slice(), is_empty && max_age.is_some()) {
        ([], false) => Ok(()),
        (_, true) => Err(Error::new(ErrorKind::Stage, "the store has no schedule")),
        (old, _) => {
            let message = format!("no run of {} succeeded within `--max-age`", old.join(", "));
            Err(Error::new(ErrorKind::Stage, message)
                .with_hint("`proofmill schedule history NAME` lists what became of its instants"))
        }
    }
}

async fn of(store: &Store, name: &PipelineName, now: DateTime<Utc>) -> Result<ScheduleStatus> {
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
    let last = |ended: Option<&ScheduleEntry>| {
        let ended = ended?;
        let open = ended.before.open.as_ref()?;
        let ScheduleEvent::Ended { how, verdict, requests, .. } = &ended.event else {
            return None;
        };
        let (planned, run) = (open.planned, open.run.clone());
        Some(LastRun { planned, run, how: *how, verdict: *verdict, requests: *requests })
    };
    Ok(ScheduleStatus {
        name: name.clone(),
        pipeline: schedule.map(|it| it.pipeline.clone()).unwrap_or_default(),
        cron: schedule.map(|it| it.cron.clone()).unwrap_or_default(),
        timezone: schedule.map(|it| it.timezone.clone()).unwrap_or_default(),
        next: next.map(|next| next.instant).filter(|_| state.paused.is_none()),
        waiting: state.waiting.len(),
        open: state.open.clone(),
        last: last(ends.first()),
        last_good: last(good.first()),
        paused: state.paused.clone(),
    })
}

/// Prints the next planned instants.
pub async fn next(args: &NextArgs, environment: &Environment) -> Result<()> {
    let schedule = stored(&args.name, environment).await?;
    let now = environment.host.clock().now();
    print(&schedule, now, DateTime::<Utc>::MAX_UTC, args.count.into(), environment)
}

/// Prints the planned instants between two dates.
pub async fn explain(args: &ExplainArgs, environment: &Environment) -> Result<()> {
    let now = environment.host.clock().now();
    let path = Path::new(&args.schedule);
    let schedule = match args.schedule.parse::<PipelineName>() {
        Ok(name) if !path.is_file() => stored(&name, environment).await?,
        _ => read(path, args.from.unwrap_or(now), environment)?,
    };
    let from = args.from.unwrap_or(now);
    let year = || from.checked_add_days(Days::new(366)).unwrap_or(DateTime::<Utc>::MAX_UTC);
    print(&schedule, from, args.to.unwrap_or_else(year), INSTANTS_MAX, environment)
}

fn print(
    schedule: &Schedule,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    most: usize,
    environment: &Environment,
) -> Result<()> {
    let calendar =
        schedule.calendar(from).map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
    let instants = calendar.between(from, to).take(most);
    let instants = instants.map(|planned| (planned, begins(schedule, planned.instant))).collect();
    environment.output.view(&CalendarView::of(schedule, &calendar, instants))
}

/// Lists what became of planned instants.
pub async fn history(args: &HistoryArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    named_or_all(&store, std::slice::from_ref(&args.name)).await?;
    let log = ScheduleLog::of(&store, &args.name);
    let entries = log.latest(args.limit as usize, |entry| !history_lines(entry).is_empty()).await?;
    environment.output.view(&ScheduleHistoryView::of(&entries, args.limit as usize))
}

async fn stored(name: &PipelineName, environment: &Environment) -> Result<Schedule> {
    let store = environment.host.store_to_read().await?;
    named_or_all(&store, std::slice::from_ref(name)).await?;
    let state = ScheduleLog::of(&store, name).head().await?.state;
    state
        .schedule
        .ok_or_else(|| Error::new(ErrorKind::Store, format!("schedule `{name}` was never applied")))
}
