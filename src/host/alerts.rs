//! Messages to people: what they say, and how they are sent. A message has names, times and words of ours, and no text of a question or a model.

use std::io::Write as _;

use chrono::{DateTime, Utc};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{PipelineName, RunId};
use proofmill_schedule::alerts::{Condition, Message, Receiver, Webhook};
use serde::Serialize;

use crate::host::post::{Guard, Post};
use crate::host::{Host, mail};

/// A message as its receivers get it.
#[derive(Clone, Debug, Serialize)]
pub struct AlertText {
    schedule: PipelineName,
    /// None for a test.
    condition: Option<Condition>,
    /// `open` when the condition begins, `closed` when it is over.
    state: &'static str,
    /// The night that it is about.
    planned: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    /// All of it for people: what chat programs show.
    text: String,
}

impl AlertText {
    /// Of a message of a schedule.
    pub fn of(schedule: &PipelineName, message: &Message) -> Self {
        let Message { condition, is_open, planned, run, .. } = message;
        let night = planned.format("%Y-%m-%d %H:%M UTC");
        let what = match (is_open, run) {
            (true, Some(run)) => format!("{} (run {run} for {night})", condition.word()),
            (true, None) => format!("{} (for {night}, which could not begin)", condition.word()),
            (false, run) => {
                let run = run.iter().map(|run| format!("with run {run} "));
                let run: String = run.collect();
                format!("over: {}; good again {run}for {night}", condition.word())
            }
        };
        Self {
            schedule: schedule.clone(),
            condition: Some(*condition),
            state: if *is_open { "open" } else { "closed" },
            planned: *planned,
            run: run.clone(),
            text: format!("schedule {schedule}: {what}"),
        }
    }

    /// The subject of a mail.
    fn subject(&self) -> String {
        let what = self.condition.map_or("test of the alerts", Condition::word);
        let over = if self.state == "closed" { "over: " } else { "" };
        format!("[proofmill] {}: {over}{what}", self.schedule)
    }

    /// A message that says nothing.
    pub fn test(schedule: &PipelineName, now: DateTime<Utc>) -> Self {
        Self {
            schedule: schedule.clone(),
            condition: None,
            state: "test",
            planned: now,
            run: None,
            text: format!("schedule {schedule}: this is a test of its alerts"),
        }
    }
}

impl Host {
    /// Sends a message to a receiver.
    ///
    /// # Errors
    ///
    /// If it does not take it.
    pub async fn send_alert(&self, receiver: &Receiver, text: &AlertText) -> Result<()> {
        let json = serde_json::to_string(text).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("a message cannot be written: {error}"))
        })?;
        match receiver {
            Receiver::File(path) => {
                let mut options = std::fs::OpenOptions::new();
                let opened = options.create(true).append(true).open(path);
                // One write, so that lines of several processes do not mix.
                let written =
                    opened.and_then(|mut file| file.write_all(format!("{json}\n").as_bytes()));
                written.map_err(|error| {
                    let message = format!("an alert cannot be appended to `{path}`: {error}");
                    Error::new(ErrorKind::Resources, message)
                        .with_hint("the file is relative to the folder of the daemon")
                })
            }
            Receiver::Webhook(webhook) => {
                let url = self.address(webhook)?;
                let guard = if webhook.allow_private { Guard::None } else { Guard::PublicOnly };
                Post::guarded(&url, guard).await?.send(json).await
            }
            Receiver::Mail(mail) => {
                let variable = |name: &Option<String>| match name {
                    Some(name) => self.needed(name, "what the mail server wants to know").map(Some),
                    None => Ok(None),
                };
                let login = variable(&mail.user_env)?.zip(variable(&mail.password_env)?);
                mail::send(mail, login, &text.subject(), format!("{}\n\n{json}\n", text.text)).await
            }
        }
    }

    fn address(&self, webhook: &Webhook) -> Result<String> {
        match (&webhook.url, &webhook.url_env) {
            (Some(url), _) => Ok(url.clone()),
            (None, Some(name)) => self.needed(name, "the address of a webhook"),
            (None, None) => Err(Error::new(ErrorKind::Usage, "the webhook has no address")),
        }
    }

    /// A variable of the environment that has something.
    fn needed(&self, name: &str, what: &str) -> Result<String> {
        self.variable(name).ok_or_else(|| {
            let message = format!("the environment variable `{name}` is not set: it has {what}");
            Error::new(ErrorKind::Usage, message).with_hint("set it where the daemon runs")
        })
    }
}
