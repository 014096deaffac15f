//! What users write: a file `kind: schedule`.

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use proofmill_base::clock::parse_duration;
use proofmill_base::ids::PipelineName;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::gate::Gate;
use proofmill_pipeline::kind_file::{self, KindFile, Refused};
use proofmill_pipeline::models::{Ask, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::alerts::{Alerts, Encryption, Mail, Receiver, Webhook};
use crate::calendar::{Calendar, CalendarError};

/// The longest time by which an instant may be shifted or be late, in seconds.
const SECONDS_MAX: u64 = 366 * 24 * 3600;

/// A schedule file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleFile {
    /// What the file is.
    pub kind: FileKind,
    /// Name of the schedule.
    #[schemars(extend("x-name" = true))]
    pub name: String,
    /// The pipeline file, relative to the folder in which the daemon runs.
    pub pipeline: String,
    /// Values for its parameters.
    #[serde(default)]
    pub params: IndexMap<String, Json>,
    /// When it runs: a cron pattern of five fields, or `@daily` and the like.
    pub cron: String,
    /// The time zone of the pattern, by its IANA name.
    #[serde(default = "utc")]
    pub timezone: String,
    /// Shift each instant by a part of this time, the same one for the same instant: `90s`, `5m`, `1h`.
    pub jitter: Option<String>,
    /// What becomes of instants that were missed because no process looked: the latest runs, none, or the last so many in
    /// order.
    #[serde(default)]
    pub missed: Missed,
    /// How late an instant may run: `24h` if nothing is said.
    #[serde(default = "day")]
    pub window: String,
    /// What becomes of an instant while an earlier run of the schedule is not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// What a run may spend, as `run --budget` takes it.
    pub budget: Option<String>,
    /// Whether runs publish requests to models for workers, as `run --workers` does.
    #[serde(default)]
    pub workers: bool,
    /// Where answers of endpoints come from.
    #[serde(default)]
    pub ask: AskFile,
    /// The share of the answers of models in folders that is computed once more, `1%` if nothing is said, or `none`: one
    /// that differs in a bit fails the night.
    #[serde(default = "percent")]
    pub recompute: String,
    /// The gate file that judges each run, relative to the folder in which `apply` runs: read then, and kept with the schedule.
    pub gate: Option<String>,
    /// Who gets a message when nights begin to fail, and when that is over.
    pub alerts: Option<Alerts>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    Schedule,
}

/// Where answers of endpoints come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskFile {
    /// From the ledger, where it has them.
    #[default]
    Ledger,
    /// From the endpoints, all of them, as a generation of their own.
    All,
    /// From the ledger; and a sample of this share, `2%`, is requested once more and compared.
    Sample(String),
}

/// What becomes of instants that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// The latest of them runs; those before are superseded.
    #[default]
    Latest,
    /// None of them runs.
    None,
    /// The last so many run, one after the other.
    All(u32),
}

/// What becomes of an instant while an earlier run of the schedule is not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Skip,
    /// The latest of them runs when the earlier run has ended.
    Queue,
    /// The earlier run is stopped, and it runs then.
    Cancel,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn percent() -> String {
    "1%".to_owned()
}

fn day() -> String {
    "24h".to_owned()
}

/// A schedule whose parts have been checked, as the store has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    pub name: PipelineName,
    pub pipeline: String,
    #[serde(default)]
    pub params: IndexMap<String, Json>,
    pub cron: String,
    pub timezone: String,
    pub jitter_seconds: u64,
    pub missed: Missed,
    pub window_seconds: u64,
    pub overlap: Overlap,
    pub budget: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workers: bool,
    #[serde(default, skip_serializing_if = "Ask::is_of_ledger")]
    pub ask: Ask,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Share>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Box<Gate>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Alerts>,
}

impl Schedule {
    /// Its calendar.
    ///
    /// # Errors
    ///
    /// If the program that wrote it knew a zone or pattern that this one does not.
    pub fn calendar(&self, now: DateTime<Utc>) -> Result<Calendar, CalendarError> {
        Calendar::new(&self.cron, &self.timezone, now)
    }
}

/// The JSON Schema of schedule files, for editors.
pub fn schema() -> Json {
    kind_file::schema::<ScheduleFile>()
}

/// What is wrong with values whose meaning is known where runs are started.
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    /// Of a budget, and whether workers answer.
    pub budget: &'a dyn Fn(&str, bool) -> Result<(), String>,
    /// Reads a gate file.
    pub gate: &'a dyn Fn(&str) -> Result<Gate, String>,
}

/// Reads the bytes of a schedule file; or the text with all that is wrong with it.
///
/// # Errors
///
/// Everything that is wrong, each at its place.
pub fn parse(
    name: &str,
    bytes: &[u8],
    now: DateTime<Utc>,
    checks: Checks<'_>,
) -> Result<Schedule, Refused> {
    let read: KindFile<ScheduleFile> = kind_file::parse(name, bytes)?;
    let mut diagnostics = Vec::new();
    wrong_alerts(&read, &mut diagnostics);
    match checked(&read, now, checks, &mut diagnostics) {
        Some(schedule) if diagnostics.is_empty() => Ok(schedule),
        _ => Err((diagnostics, read.sources)),
    }
}

fn checked(
    read: &KindFile<ScheduleFile>,
    now: DateTime<Utc>,
    checks: Checks<'_>,
    out: &mut Vec<Diagnostic>,
) -> Option<Schedule> {
    let file = read.file.clone();
    let mut wrong = |key: &str, message: String, help: Option<&str>| {
        out.push(read.wrong(&[key], message, help));
    };
    let mut seconds = |key: &str, text: &str| {
        let found = parse_duration(text).map(|time| time.as_secs());
        let found = found.filter(|seconds| *seconds <= SECONDS_MAX);
        if found.is_none() {
            let message = format!("`{text}` is not a time of at most a year");
            wrong(key, message, Some("write a number above 0 and `s`, `m` or `h`: `90s`, `24h`"));
        }
        found
    };
    let jitter_seconds = match &file.jitter {
        Some(jitter) => seconds("jitter", jitter),
        None => Some(0),
    };
    let window_seconds = seconds("window", &file.window);
    if let Some(Err(reason)) = file.budget.as_deref().map(|it| (checks.budget)(it, file.workers)) {
        wrong("budget", reason, None);
    }
    let gate = file.gate.as_deref().map(checks.gate).transpose();
    let gate = gate.map_err(|reason| wrong("gate", reason, None));
    let ask = match &file.ask {
        AskFile::Ledger => Some(Ask::Ledger),
        AskFile::All => Some(Ask::All),
        AskFile::Sample(share) => {
            let share = share.parse().map_err(|reason| wrong("ask", reason, None));
            share.map(Ask::Sample).ok()
        }
    };
    let recompute = match file.recompute.as_str() {
        "none" => Some(None),
        share => {
            let share = share.parse::<Share>();
            let share = share.map_err(|reason| wrong("recompute", reason, Some("or `none`")));
            share.map(Some).ok()
        }
    };
    if file.missed == Missed::All(0) {
        wrong("missed", "`all` needs at least 1".to_owned(), Some("`none` runs none of them"));
    }
    let name = file.name.parse::<PipelineName>().map_err(|error| {
        wrong("name", error.to_string(), None);
    });
    let calendar = Calendar::new(&file.cron, &file.timezone, now);
    // A zone that is wrong hides nothing of the pattern.
    let pattern = match &calendar {
        Err(CalendarError::Zone(_)) => Calendar::new(&file.cron, "UTC", now).err(),
        _ => None,
    };
    for error in calendar.err().into_iter().chain(pattern) {
        let key = if matches!(error, CalendarError::Zone(_)) { "timezone" } else { "cron" };
        let help = match &error {
            CalendarError::Zone(_) => "an IANA name, such as `Europe/Berlin` or `UTC`",
            _ => "minute, hour, day of the month, month, day of the week: `30 2 * * *`",
        };
        wrong(key, error.to_string(), Some(help));
    }
    Some(Schedule {
        name: name.ok()?,
        pipeline: file.pipeline,
        params: file.params,
        cron: file.cron,
        timezone: file.timezone,
        jitter_seconds: jitter_seconds?,
        missed: file.missed,
        window_seconds: window_seconds?,
        overlap: file.overlap,
        budget: file.budget,
        workers: file.workers,
        ask: ask?,
        recompute: recompute?,
        gate: gate.ok()?.map(Box::new),
        alerts: file.alerts,
    })
}

/// What is wrong with the receivers of alerts, and with their conditions.
fn wrong_alerts(read: &KindFile<ScheduleFile>, out: &mut Vec<Diagnostic>) {
    let Some(alerts) = &read.file.alerts else { return };
    let mut wrong = |path: &[&str], message: String, help: &str| {
        out.push(read.wrong(&[&["alerts"], path].concat(), message, Some(help)));
    };
    if alerts.on.is_empty() {
        wrong(
            &["on"],
            "no condition sends a message".to_owned(),
            "`[failed, fail]`, or leave it out",
        );
    }
    for (at, receiver) in alerts.to.iter().enumerate() {
        let at = at.to_string();
        match receiver {
            Receiver::File(path) if path.trim().is_empty() => {
                wrong(&["to", &at, "file"], "no file is named".to_owned(), "`alerts.jsonl`");
            }
            Receiver::File(_) => {}
            Receiver::Mail(mail) => {
                let mut wrong = |key: &str, message: String, help: &str| {
                    wrong(&["to", &at, "mail", key], message, help);
                };
                wrong_mail(mail, &mut wrong);
            }
            Receiver::Webhook(Webhook { url, url_env, .. }) => {
                let path = ["to", &at, "webhook"];
                let help =
                    "the address, or the environment variable that has it where it is a secret";
                match (url, url_env) {
                    (Some(_), None) | (None, Some(_)) => {}
                    _ => wrong(&path, "give one of `url` and `url_env`".to_owned(), help),
                }
                let is_web = |url: &String| {
                    let rest = url.strip_prefix("https://").or(url.strip_prefix("http://"));
                    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('@'))
                };
                if url.as_ref().is_some_and(|url| !is_web(url)) {
                    let help = "`https://HOST/PATH` without a user or a password; a secret goes into `url_env`";
                    let path = [&path[..], &["url"]].concat();
                    wrong(&path, "this is no address of a webhook".to_owned(), help);
                }
            }
        }
    }
}

/// What is wrong with a receiver of electronic mail.
fn wrong_mail(mail: &Mail, wrong: &mut dyn FnMut(&str, String, &str)) {
    // Whether an address can be written to is for the server to say.
    let is_address = |address: &String| {
        address.split_once('@').is_some_and(|(name, place)| !name.is_empty() && !place.is_empty())
            && !address.contains(char::is_control)
    };
    if mail.to.is_empty() {
        wrong("to", "no address is named".to_owned(), "`[ops@example.org]`");
    }
    let all = mail.to.iter().map(|address| ("to", address)).chain([("from", &mail.from)]);
    for (key, address) in all.filter(|(_, address)| !is_address(address)) {
        wrong(key, format!("`{address}` is no address of electronic mail"), "`ops@example.org`");
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    if mail.server.is_empty() || !mail.server.chars().all(is_name) {
        let message = format!("`{}` is no name of a server", mail.server);
        wrong("server", message, "`smtp.example.org`, with `port` for another port");
    }
    if mail.port == Some(0) {
        wrong("port", "there is no port 0".to_owned(), "leave it out for the usual one");
    }
    match (&mail.user_env, &mail.password_env) {
        (Some(_), None) | (None, Some(_)) => {
            let key = if mail.user_env.is_some() { "user_env" } else { "password_env" };
            wrong(key, "give both of `user_env` and `password_env`".to_owned(), "or neither");
        }
        (Some(_), Some(_)) if mail.encryption == Encryption::None => {
            let message = "a password is not sent without encryption".to_owned();
            wrong(
                "encryption",
                message,
                "`starttls` or `tls`, or no `user_env` and `password_env`",
            );
        }
        _ => {}
    }
}
