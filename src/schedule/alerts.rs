//! Alerts about the nights of a schedule: one message when a condition begins to hold, one when it has not held for some nights.
//! Pure: what is sent, and where to, is for the process that runs the schedule.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use proofmill_base::ids::RunId;
use proofmill_catalog::audit::entry::{Ending, VerdictWord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a process has for sending before another one does, in seconds.
const CLAIM_SECONDS: i64 = 300;
/// Messages that wait to be sent, at most: those of a receiver that is gone for good are not kept for ever.
const WAITING_MAX: usize = 64;

/// The alerts of a schedule, as its file has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alerts {
    /// Where messages go.
    #[schemars(length(min = 1))]
    pub to: Vec<Receiver>,
    /// The conditions that send messages.
    #[serde(default = "usual")]
    pub on: Vec<Condition>,
    /// Nights in a row without a condition after which it is over.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 100))]
    pub close_after: u32,
}

fn usual() -> Vec<Condition> {
    vec![Condition::Failed, Condition::Fail]
}

fn three() -> u32 {
    3
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Receiver {
    /// A file to which each message is appended as a line of JSON, relative to the folder in which the daemon runs.
    File(String),
    Webhook(Webhook),
    Mail(Mail),
}

/// An address to which each message is sent as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The address, if it is no secret.
    pub url: Option<String>,
    /// The environment variable that has the address.
    pub url_env: Option<String>,
    /// Whether it may be an address of this machine or of a private network.
    #[serde(default)]
    pub allow_private: bool,
}

/// Electronic mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    /// The addresses that get it.
    #[schemars(length(min = 1))]
    pub to: Vec<String>,
    /// The address that it comes from.
    pub from: String,
    /// The name of the server that takes it.
    pub server: String,
    /// The port of the server; that of the encryption if nothing is said: 587, 465 or 25.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    #[serde(default)]
    pub encryption: Encryption,
    /// The environment variables that have the user and the password for the server, if it wants them.
    pub user_env: Option<String>,
    pub password_env: Option<String>,
    /// Whether the server may be at an address of this machine or of a private network.
    #[serde(default)]
    pub allow_private: bool,
}

/// How the exchange with a server is kept from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    /// It begins in the open and goes on encrypted, or not at all.
    #[default]
    Starttls,
    /// It is encrypted from the first byte on.
    Tls,
    /// It is not: for a server on the same machine. No password is sent then.
    None,
}

impl Encryption {
    /// The usual port.
    pub fn port(self) -> u16 {
        match self {
            Self::Starttls => 587,
            Self::Tls => 465,
            Self::None => 25,
        }
    }
}

/// A condition that sends messages.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A night did not succeed.
    Failed,
    /// The gate says fail.
    Fail,
    /// The gate has no verdict.
    NoVerdict,
}

impl Condition {
    /// What it is, in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "the night did not succeed",
            Self::Fail => "the gate says fail",
            Self::NoVerdict => "the gate has no verdict",
        }
    }

    /// Whether a night that ended so has it.
    fn holds(self, how: Ending, verdict: Option<VerdictWord>) -> bool {
        match self {
            Self::Failed => how != Ending::Succeeded,
            Self::Fail => verdict == Some(VerdictWord::Fail),
            Self::NoVerdict => verdict.is_some_and(|word| {
                how == Ending::Succeeded && !matches!(word, VerdictWord::Pass | VerdictWord::Fail)
            }),
        }
    }
}

/// Conditions that hold, and messages that are to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertState {
    /// Conditions that hold, or have not been over for long enough.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open: BTreeMap<Condition, OpenAlert>,
    /// Messages that some receiver does not have yet, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Message>,
    /// Messages so far.
    #[serde(default)]
    count: u64,
}

/// A condition of which a message was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenAlert {
    /// The first night that had it.
    pub planned: DateTime<Utc>,
    /// `None` if it could not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Nights since the last one that had it.
    pub nights_without: u32,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Its number, from 1.
    pub number: u64,
    pub condition: Condition,
    /// Whether the condition begins or is over.
    pub is_open: bool,
    /// The night that it is about.
    pub planned: DateTime<Utc>,
    /// `None` if that could not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The receivers that do not have it yet, by their numbers in the schedule.
    pub left: Vec<usize>,
    /// Until when another process is sending it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<DateTime<Utc>>,
}

/// A night that ended, or could not begin.
#[derive(Clone, Copy, Debug)]
pub struct Night<'a> {
    pub planned: DateTime<Utc>,
    /// `None` if it could not begin.
    pub run: Option<&'a RunId>,
    pub how: Ending,
    pub verdict: Option<VerdictWord>,
}

impl AlertState {
    /// Whether there never was a message.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes note of a night.
    pub fn night(&mut self, alerts: &Alerts, night: Night<'_>) {
        let Night { planned, run, how, verdict } = night;
        for condition in &alerts.on {
            let holds = condition.holds(how, verdict);
            match (holds, self.open.get_mut(condition)) {
                (true, Some(open)) => open.nights_without = 0,
                (true, None) => {
                    let open = OpenAlert { planned, run: run.cloned(), nights_without: 0 };
                    self.open.insert(*condition, open);
                    self.message(alerts, *condition, true, night);
                }
                (false, Some(open)) => {
                    open.nights_without += 1;
                    if open.nights_without >= alerts.close_after {
                        self.open.remove(condition);
                        self.message(alerts, *condition, false, night);
                    }
                }
                (false, None) => {}
            }
        }
    }

    fn message(&mut self, alerts: &Alerts, condition: Condition, is_open: bool, night: Night<'_>) {
        self.count += 1;
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.remove(0);
        }
        self.waiting.push(Message {
            number: self.count,
            condition,
            is_open,
            planned: night.planned,
            run: night.run.cloned(),
            left: (0..alerts.to.len()).collect(),
            claimed: None,
        });
    }

    /// Keeps what the alerts of a changed schedule still have.
    pub fn changed(&mut self, alerts: Option<&Alerts>) {
        match alerts {
            None => *self = Self { count: self.count, ..Self::default() },
            Some(alerts) => {
                self.open.retain(|condition, _| alerts.on.contains(condition));
                let all = alerts.to.len();
                self.waiting.iter_mut().for_each(|message| message.left = (0..all).collect());
            }
        }
    }

    /// The first message that no process is sending now.
    pub fn next(&self, now: DateTime<Utc>) -> Option<&Message> {
        self.waiting.iter().find(|message| message.claimed.is_none_or(|until| until <= now))
    }

    /// Takes note that a process sends a message from now on.
    pub fn claim(&mut self, number: u64, at: DateTime<Utc>) {
        if let Some(message) = self.waiting.iter_mut().find(|message| message.number == number) {
            message.claimed = at.checked_add_signed(TimeDelta::seconds(CLAIM_SECONDS));
        }
    }

    /// Takes note of the receivers that do not have a message; one that all have is done. The claim stays, so that a receiver that is down is
    /// not tried at every look.
    pub fn sent(&mut self, number: u64, left: &[usize]) {
        for message in self.waiting.iter_mut().filter(|message| message.number == number) {
            message.left = left.to_vec();
        }
        self.waiting.retain(|message| !message.left.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(night: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(night)
    }

    fn alerts() -> Alerts {
        let to = vec![Receiver::File("a".to_owned()), Receiver::File("b".to_owned())];
        Alerts { to, on: usual(), close_after: three() }
    }

    /// The messages about nights, each with its verdict: `+` for a beginning, `-` for an end.
    fn messages(nights: &[VerdictWord]) -> String {
        let run: RunId = "20261121-021500123-k3f9qa".parse().unwrap();
        let mut state = AlertState::default();
        for (number, word) in (1..).zip(nights) {
            let (how, verdict) = (Ending::Succeeded, Some(*word));
            state.night(&alerts(), Night { planned: at(number), run: Some(&run), how, verdict });
        }
        let word = |message: &Message| {
            let sign = if message.is_open { "+" } else { "-" };
            format!("{sign}{}", message.planned.signed_duration_since(at(0)).num_days())
        };
        state.waiting.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_flapping_metric_sends_two_messages() {
        use VerdictWord::{Fail, Pass};
        assert_eq!(messages(&[Pass, Pass]), "");
        assert_eq!(messages(&[Pass, Fail, Fail]), "+2");
        assert_eq!(
            messages(&[Fail, Pass, Fail, Pass, Pass, Fail, Pass, Pass, Pass, Pass]),
            "+1 -9"
        );
        assert_eq!(messages(&[Fail, Pass, Pass, Pass, Fail]), "+1 -4 +5");
    }

    #[test]
    fn a_message_is_sent_by_one_process_and_again_only_to_those_without_it() {
        let run: RunId = "20261121-021500123-k3f9qa".parse().unwrap();
        let mut state = AlertState::default();
        let night = Night { planned: at(1), run: Some(&run), how: Ending::Failed, verdict: None };
        state.night(&alerts(), night);
        assert_eq!(state.next(at(1)).unwrap().left, [0, 1]);
        state.claim(1, at(1));
        assert_eq!(state.next(at(1)), None, "another process is at it");
        assert!(state.next(at(2)).is_some(), "that one died");
        state.sent(1, &[1]);
        assert_eq!(state.next(at(1)), None, "a receiver that is down is left alone for a while");
        assert_eq!(state.next(at(2)).unwrap().left, [1]);
        state.sent(1, &[]);
        assert_eq!(state.next(at(2)), None);
        // A schedule without alerts forgets its conditions.
        state.changed(None);
        assert!(state.open.is_empty());
    }
}
