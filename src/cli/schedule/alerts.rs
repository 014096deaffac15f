//! Sends the messages that the log of a schedule has.

use proofmill_schedule::log::ScheduleLog;
use proofmill_schedule::state::{ScheduleEvent, ScheduleState};
use proofmill_store::writer_name;

use crate::cli::environment::Environment;
use crate::cli::schedule::look::stored;
use crate::cli::schedule::tick::Scheduler;
use crate::host::alerts::AlertText;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::PipelineName;

/// Messages that one look sends.
const MESSAGES_MAX: usize = 16;

impl Scheduler<'_> {
    /// Sends the messages that no other process is sending, each once, to the receivers that do not have it.
    ///
    /// # Errors
    ///
    /// If the store fails, or a receiver does not take a message: a later look sends it again.
    pub(super) async fn send_alerts(&self) -> Result<()> {
        let log = ScheduleLog::of(self.store, self.name);
        let writer = writer_name(self.store);
        let clock = self.environment.host.clock();
        let mut failed = Ok(());
        for _ in 0..MESSAGES_MAX {
            let state = log.head().await?.state;
            if state.alerts.next(clock.now()).is_none() {
                break;
            }
            let claim = |state: &ScheduleState| {
                let message = state.alerts.next(clock.now()).map(|it| it.number);
                Ok(message.map(|message| ScheduleEvent::Sending { message, at: clock.now() }))
            };
            let Some((head, ScheduleEvent::Sending { message: number, .. })) =
                log.append(&writer, claim).await?
            else {
                break;
            };
            let (schedule, alerts) = (&head.state.schedule, &head.state.alerts);
            let receivers = schedule.as_ref().and_then(|it| it.alerts.as_ref());
            let message = alerts.waiting.iter().find(|it| it.number == number);
            let (Some(receivers), Some(message)) = (receivers, message) else { break };
            let text = AlertText::of(self.name, message);
            let mut left = Vec::new();
            for at in &message.left {
                let Some(receiver) = receivers.to.get(*at) else { continue };
                if let Err(error) = self.environment.host.send_alert(receiver, &text).await {
                    left.push(*at);
                    failed = Err(error);
                }
            }
            let sent = |_: &ScheduleState| {
                Ok(Some(ScheduleEvent::Sent { message: number, left: left.clone() }))
            };
            log.append(&writer, sent).await?;
        }
        failed
    }
}

/// Sends a message to all receivers of a schedule.
pub async fn test(name: &PipelineName, environment: &Environment) -> Result<()> {
    let schedule = stored(name, environment).await?;
    let Some(alerts) = &schedule.alerts else {
        let message = format!("schedule `{name}` has no `alerts`");
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint("`docs/specs/schedules.md` says how to write them"));
    };
    let text = AlertText::test(name, environment.host.clock().now());
    let mut failed = None;
    for (at, receiver) in (1..).zip(&alerts.to) {
        match environment.host.send_alert(receiver, &text).await {
            Ok(()) => environment.output.remark(format!("receiver {at} took it")),
            Err(error) => {
                environment.output.remark(format!("receiver {at}: {error}"));
                failed = Some(error);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
