//! `proofmill schedule status`, `next`, `explain` and `history`.

use std::path::Path;

use chrono::{DateTime, Days, TimeDelta, Utc};
use proofmill_schedule::decision::begins;
use proofmill_schedule::file::Schedule;
use proofmill_schedule::log::{ScheduleLog, names};
use proofmill_store::Store;

use crate::cli::environment::Environment;
use crate::cli::schedule::args::{ExplainArgs, HistoryArgs, NextArgs, StatusArgs};
use crate::cli::schedule::read::read;
use crate::views::schedule::{
    CalendarView, ScheduleHistoryView, ScheduleStatus, StatusView, history_lines,
};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::PipelineName;
use proofmill_base::suggest;

/// Instants that are printed.
const INSTANTS_MAX: usize = 400_000;

/// The schedules that are meant: those named, or all.
///
/// # Errors
///
/// If the store does not have one of them.
pub async fn named_or_all(store: &Store, named: &[PipelineName]) -> Result<Vec<PipelineName>> {
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
    let mut broken = None;
    for name in named_or_all(&store, &args.names).await? {
        match ScheduleStatus::of(&store, &name, now).await {
            Ok(status) => all.push(status),
            // One schedule that cannot be read hides no other.
            Err(error) => {
                environment.output.remark(format!("schedule `{name}` cannot be read: {error}"));
                broken = Some(error);
            }
        }
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
    if let Some(error) = broken {
        return Err(error);
    }
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

/// A schedule of the store.
pub(super) async fn stored(name: &PipelineName, environment: &Environment) -> Result<Schedule> {
    let store = environment.host.store_to_read().await?;
    named_or_all(&store, std::slice::from_ref(name)).await?;
    let state = ScheduleLog::of(&store, name).head().await?.state;
    state
        .schedule
        .ok_or_else(|| Error::new(ErrorKind::Store, format!("schedule `{name}` was never applied")))
}
