//! The arguments of `proofmill schedule`.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};

use crate::cli::values::{parse_seconds, parse_time};
use proofmill_base::ids::PipelineName;

/// `schedule`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct ScheduleArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: ScheduleAction,
}

/// What can be done with schedules.
#[derive(Debug, Subcommand)]
pub enum ScheduleAction {
    /// Put a schedule file into the store, which alone counts from then on
    Apply(ApplyArgs),
    /// Start what is due, and wait for the next: the daemon. Any number of them may run
    Run(DaemonArgs),
    /// Start what is due once, for a timer of the system, a CronJob or CI. Exit code 0 if nothing is due,
    /// 1 if a run did not succeed
    Tick(TickArgs),
    /// List schedules with their last and next runs. Exit code 1 if one is older than `--max-age`
    Status(StatusArgs),
    /// Print the next planned instants
    Next(NextArgs),
    /// Print all planned instants between two dates, with what the clock of the zone does to them
    Explain(ExplainArgs),
    /// List what became of planned instants, the latest first
    History(HistoryArgs),
    /// Start nothing until `resume`; paused time is not made up
    Pause(PauseArgs),
    /// End a pause
    Resume(NameArgs),
    /// Run once now, or when the open run has ended
    Trigger(NameArgs),
    /// Run planned instants of the past again, one after the other
    Backfill(BackfillArgs),
    /// Send a message to all receivers of a schedule's alerts, to see that they take it
    TestAlerts(NameArgs),
}

/// `schedule apply`
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The schedule file
    pub file: PathBuf,
}

/// `schedule run`
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// Only these schedules [default: all of the store]
    pub names: Vec<PipelineName>,
}

/// `schedule tick`
#[derive(Debug, Args)]
pub struct TickArgs {
    /// Only these schedules [default: all of the store]
    pub names: Vec<PipelineName>,
}

/// `schedule status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only these schedules [default: all of the store]
    pub names: Vec<PipelineName>,
    /// Exit with code 1 if the last run that succeeded began longer ago, such as `26h`
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub max_age: Option<u64>,
}

/// `schedule next`
#[derive(Debug, Args)]
pub struct NextArgs {
    /// The schedule
    pub name: PipelineName,
    /// How many
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub count: u16,
}

/// `schedule explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A schedule file, or the name of a schedule
    pub schedule: String,
    /// The first date or time (RFC 3339), exclusive [default: now]
    #[arg(long, value_parser = parse_time)]
    pub from: Option<DateTime<Utc>>,
    /// The last date or time (RFC 3339), inclusive [default: a year after the first]
    #[arg(long, value_parser = parse_time)]
    pub to: Option<DateTime<Utc>>,
}

/// `schedule history`
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The schedule
    pub name: PipelineName,
    /// Maximum number of lines, the latest
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
}

/// `schedule pause`
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// The schedule
    pub name: PipelineName,
    /// Why, for those who look at its status
    #[arg(long)]
    pub reason: String,
}

/// Arguments of commands about one schedule.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// The schedule
    pub name: PipelineName,
}

/// `schedule backfill`
#[derive(Debug, Args)]
pub struct BackfillArgs {
    /// The schedule
    pub name: PipelineName,
    /// The first date or time (RFC 3339), exclusive
    #[arg(long, value_parser = parse_time)]
    pub from: DateTime<Utc>,
    /// The last date or time (RFC 3339), inclusive, which must be past
    #[arg(long, value_parser = parse_time)]
    pub to: DateTime<Utc>,
}
