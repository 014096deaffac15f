//! `proofmill schedule`, command by command.

use crate::cli::environment::Environment;
use crate::cli::schedule::args::{ScheduleAction, ScheduleArgs};
use crate::cli::schedule::{alerts, daemon, edit, look, tick};
use proofmill_base::error::Result;

/// Looks at schedules, changes them, starts what they say.
pub async fn schedule(args: &ScheduleArgs, environment: &Environment) -> Result<()> {
    match &args.action {
        ScheduleAction::Apply(args) => edit::apply(args, environment).await,
        ScheduleAction::Run(args) => Box::pin(daemon::run(args, environment)).await,
        ScheduleAction::Tick(args) => Box::pin(tick::tick(args, environment)).await,
        ScheduleAction::Status(args) => look::status(args, environment).await,
        ScheduleAction::Next(args) => look::next(args, environment).await,
        ScheduleAction::Explain(args) => look::explain(args, environment).await,
        ScheduleAction::History(args) => look::history(args, environment).await,
        ScheduleAction::Pause(args) => edit::pause(args, environment).await,
        ScheduleAction::Resume(args) => edit::resume(&args.name, environment).await,
        ScheduleAction::Trigger(args) => edit::trigger(&args.name, environment).await,
        ScheduleAction::Backfill(args) => edit::backfill(args, environment).await,
        ScheduleAction::TestAlerts(args) => alerts::test(&args.name, environment).await,
    }
}
