//! `proofmill schedule apply`, `pause`, `resume`, `trigger` and `backfill`.

use chrono::{DateTime, Utc};

use crate::cli::environment::Environment;
use crate::cli::schedule::args::{ApplyArgs, BackfillArgs, PauseArgs};
use crate::cli::schedule::look::named_or_all;
use crate::cli::schedule::read::read;
use crate::report::units::plural;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::PipelineName;
use proofmill_schedule::calendar::CalendarError;
use proofmill_schedule::decision;
use proofmill_schedule::log::ScheduleLog;
use proofmill_schedule::state::{ScheduleEvent, ScheduleState, Waiting, Why};
use proofmill_store::{Store, writer_name};

/// Instants that one command may have run again.
const BACKFILL_MAX: usize = 1000;

/// Puts a schedule into the store.
pub async fn apply(args: &ApplyArgs, environment: &Environment) -> Result<()> {
    let now = environment.host.clock().now();
    let schedule = read(&args.file, now, environment)?;
    let store = environment.host.store().await?;
    let log = ScheduleLog::of(&store, &schedule.name);
    let applied = log
        .append(&writer_name(&store), |state| match state.schedule.as_ref() == Some(&schedule) {
            true => Ok(None),
            false => decision::apply(state, schedule.clone(), now).map(Some),
        })
        .await?;
    environment.output.remark(match applied {
        Some(_) => format!("schedule `{}` counts from now on", schedule.name),
        None => format!("schedule `{}` is as the file says already", schedule.name),
    });
    Ok(())
}

/// Pauses a schedule.
pub async fn pause(args: &PauseArgs, environment: &Environment) -> Result<()> {
    if args.reason.trim().is_empty() {
        return Err(Error::new(ErrorKind::Usage, "`--reason` is empty"));
    }
    let now = environment.host.clock().now();
    let event = |state: &ScheduleState| match &state.paused {
        Some(_) => Ok(None),
        None => decision::pause(state, args.reason.clone(), now).map(Some),
    };
    environment.output.remark(match changed(&args.name, environment, event).await? {
        true => format!("schedule `{}` is paused; a run that has begun goes on", args.name),
        false => format!("schedule `{}` was paused already", args.name),
    });
    Ok(())
}

/// Ends a pause.
pub async fn resume(name: &PipelineName, environment: &Environment) -> Result<()> {
    let now = environment.host.clock().now();
    let event = |state: &ScheduleState| match &state.paused {
        Some(_) => decision::resume(state, now).map(Some),
        None => Ok(None),
    };
    environment.output.remark(match changed(name, environment, event).await? {
        true => format!("schedule `{name}` goes on"),
        false => format!("schedule `{name}` was not paused"),
    });
    Ok(())
}

/// Has a schedule run once, now.
pub async fn trigger(name: &PipelineName, environment: &Environment) -> Result<()> {
    let planned = environment.host.clock().now();
    request(name, &[planned], Why::Triggered, environment).await?;
    environment
        .output
        .remark(format!("requested: the next `schedule tick`, or a daemon, runs `{name}`"));
    Ok(())
}

/// Has planned instants of the past run again.
pub async fn backfill(args: &BackfillArgs, environment: &Environment) -> Result<()> {
    let now = environment.host.clock().now();
    if args.to > now {
        return Err(Error::new(ErrorKind::Usage, "`--to` is in the future")
            .with_hint("instants that are not past run when they are due"));
    }
    let store = of_schedule(&args.name, environment).await?;
    let state = ScheduleLog::of(&store, &args.name).head().await?.state;
    let Some(schedule) = &state.schedule else { return Ok(()) };
    let calendar = schedule
        .calendar(args.from)
        .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
    let planned: Vec<DateTime<Utc>> = calendar
        .between(args.from, args.to)
        .take(BACKFILL_MAX + 1)
        .map(|planned| planned.instant)
        .collect();
    if planned.is_empty() || planned.len() > BACKFILL_MAX {
        let message = match planned.is_empty() {
            true => "no instant was planned between these".to_owned(),
            false => format!("more than {BACKFILL_MAX} instants were planned between these"),
        };
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint(format!("`proofmill schedule explain {}` prints them", args.name)));
    }
    request(&args.name, &planned, Why::Backfilled, environment).await?;
    let instants = plural(planned.len(), "instant");
    environment
        .output
        .remark(format!("{instants} requested: a daemon or `schedule tick` runs them"));
    Ok(())
}

async fn request(
    name: &PipelineName,
    planned: &[DateTime<Utc>],
    why: Why,
    environment: &Environment,
) -> Result<()> {
    let event = |state: &ScheduleState| {
        let new = planned.iter().map(|planned| Waiting { planned: *planned, why });
        let waiting: Vec<Waiting> = new.filter(|new| !state.waiting.contains(new)).collect();
        Ok((!waiting.is_empty()).then_some(ScheduleEvent::Requested { waiting }))
    };
    changed(name, environment, event).await?;
    Ok(())
}

/// Appends what `event` makes of the state of a schedule; whether that is anything.
async fn changed(
    name: &PipelineName,
    environment: &Environment,
    event: impl Fn(&ScheduleState) -> std::result::Result<Option<ScheduleEvent>, CalendarError>
    + Send
    + Sync,
) -> Result<bool> {
    let store = of_schedule(name, environment).await?;
    let done = ScheduleLog::of(&store, name).append(&writer_name(&store), event).await?;
    Ok(done.is_some())
}

/// The store, which has this schedule.
async fn of_schedule(name: &PipelineName, environment: &Environment) -> Result<Store> {
    let store = environment.host.store_to_read().await?;
    named_or_all(&store, std::slice::from_ref(name)).await?;
    Ok(store)
}
