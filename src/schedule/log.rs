//! A schedule in the store: an open log, `schedules/<name>/<n>.json`, whose last entry has the whole state.

use chrono::{DateTime, Utc};
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind};
use proofmill_base::ids::PipelineName;
use proofmill_base::rng::random_name;
use proofmill_store::{
    APPEND_ATTEMPTS_MAX, Appended, LogFolder, LogRecord, OpenLog, OpenLogError, Position, Record,
    Store, StoreError, StoredEntry, schedules_prefix,
};
use serde::{Deserialize, Serialize};

use crate::calendar::CalendarError;
use crate::state::{ScheduleEvent, ScheduleState};

/// The version of entries that this program writes and the newest that it reads.
pub const SCHEDULE_VERSION: u32 = 1;
/// Entries that are read backwards at a time.
const WINDOW: u64 = 64;

/// An entry of the log of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleEntry {
    pub v: u32,
    /// Number of the entry, from 0 without gaps.
    pub seq: u64,
    /// Digest of the stored bytes of the entry before; none for the first.
    pub prev: Option<Digest>,
    /// What was known before this entry.
    pub before: ScheduleState,
    /// The process that wrote the entry.
    pub writer: String,
    /// Makes the bytes unique, so that a writer recognises its own.
    pub nonce: String,
    /// When the entry was written, for people.
    pub t_utc: DateTime<Utc>,
    pub event: ScheduleEvent,
}

impl Record for ScheduleEntry {
    const VERSION: u32 = SCHEDULE_VERSION;
}

impl LogRecord for ScheduleEntry {
    fn seq(&self) -> u64 {
        self.seq
    }

    fn prev(&self) -> Option<Digest> {
        self.prev
    }
}

/// Why the log of a schedule cannot be read or continued.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleLogError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the log of schedule `{name}` is broken: {reason}")]
    Broken { name: PipelineName, reason: String },
    #[error(
        "schedule `{0}`: its log took no entry, because other processes added {APPEND_ATTEMPTS_MAX} in between"
    )]
    Contended(PipelineName),
    #[error("schedule `{name}`: {reason}")]
    Calendar { name: PipelineName, reason: CalendarError },
}

impl ScheduleLogError {
    /// Whether the log was changed after it was written, and not the store or its connection at fault.
    pub fn is_broken(&self) -> bool {
        match self {
            Self::Broken { .. } => true,
            Self::Store(error) => error.is_broken_record(),
            Self::Contended(_) | Self::Calendar { .. } => false,
        }
    }
}

impl From<ScheduleLogError> for Error {
    fn from(error: ScheduleLogError) -> Self {
        match error {
            ScheduleLogError::Store(error) => error.into(),
            ScheduleLogError::Broken { .. } => Self::new(ErrorKind::Store, error.to_string())
                .with_hint("restore the folder `schedules` of the store, or move it away and apply the schedule again"),
            ScheduleLogError::Contended(_) => Self::new(ErrorKind::Store, error.to_string())
                .with_hint("run again when fewer processes write to this store"),
            ScheduleLogError::Calendar { .. } => Self::new(ErrorKind::Usage, error.to_string())
                .with_hint("apply a schedule that this program understands"),
        }
    }
}

/// The log of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleLog {
    store: Store,
    name: PipelineName,
    log: OpenLog<ScheduleEntry>,
}

/// The state of a schedule after its last entry.
#[derive(Clone, Debug, Default)]
pub struct ScheduleHead {
    position: Position,
    pub state: ScheduleState,
}

impl ScheduleLog {
    pub fn of(store: &Store, name: &PipelineName) -> Self {
        let log = OpenLog::new(LogFolder::of_schedule(name));
        Self { store: store.clone(), name: name.clone(), log }
    }

    /// What is known of the schedule; nothing if the store does not have it.
    ///
    /// # Errors
    ///
    /// If the log is broken at its end, or the store fails.
    pub async fn head(&self) -> Result<ScheduleHead, ScheduleLogError> {
        let last = self.log.head(&self.store).await.map_err(|error| self.failed(error))?;
        Ok(last.as_ref().map(after).unwrap_or_default())
    }

    /// Appends what `event` makes of the state, and gives the state after it and the event; `None` if that is nothing.
    /// If another process is faster, `event` decides again.
    ///
    /// # Errors
    ///
    /// If the log is broken, the store fails, or `event` does.
    pub async fn append(
        &self,
        writer: &str,
        event: impl Fn(&ScheduleState) -> Result<Option<ScheduleEvent>, CalendarError> + Send + Sync,
    ) -> Result<Option<(ScheduleHead, ScheduleEvent)>, ScheduleLogError> {
        let next = |last: Option<StoredEntry<ScheduleEntry>>| {
            let head = last.as_ref().map(after).unwrap_or_default();
            let failed = |reason| {
                let name = self.name.clone();
                AppendError::Schedule(ScheduleLogError::Calendar { name, reason })
            };
            let event = event(&head.state).map_err(failed);
            std::future::ready(event.map(|it| it.map(|event| self.entry(writer, &head, event))))
        };
        match self.log.append(&self.store, next).await {
            Ok(Appended::Entry(stored)) => Ok(Some((after(&stored), stored.entry.event))),
            Ok(Appended::Nothing) => Ok(None),
            Ok(Appended::Contended) => Err(ScheduleLogError::Contended(self.name.clone())),
            Err(AppendError::Log(error)) => Err(self.failed(error)),
            Err(AppendError::Schedule(error)) => Err(error),
        }
    }

    /// The latest entries, latest first, up to `most` of those that `fits` accepts.
    ///
    /// # Errors
    ///
    /// As [`Self::head`].
    pub async fn latest(
        &self,
        most: usize,
        fits: impl Fn(&ScheduleEntry) -> bool + Send,
    ) -> Result<Vec<ScheduleEntry>, ScheduleLogError> {
        let failed = |error| self.failed(error);
        let Some(last) = self.log.head(&self.store).await.map_err(failed)? else {
            return Ok(Vec::new());
        };
        let (mut earliest, mut found) = (last.entry.clone(), Vec::new());
        let mut entries = vec![last];
        while !entries.is_empty() && found.len() < most {
            entries.reverse();
            let fitting = entries.into_iter().map(|stored| stored.entry).filter(|it| fits(it));
            found.extend(fitting);
            let from = earliest.seq.saturating_sub(WINDOW);
            entries = self.log.before(&self.store, from, &earliest).await.map_err(failed)?;
            if let Some(first) = entries.first() {
                earliest = first.entry.clone();
            }
        }
        found.truncate(most);
        Ok(found)
    }

    fn entry(&self, writer: &str, head: &ScheduleHead, event: ScheduleEvent) -> ScheduleEntry {
        ScheduleEntry {
            v: SCHEDULE_VERSION,
            seq: head.position.next,
            prev: head.position.head,
            before: head.state.clone(),
            writer: writer.to_owned(),
            nonce: random_name(self.store.rng().as_ref(), 16),
            t_utc: self.store.clock().now(),
            event,
        }
    }

    fn failed(&self, error: OpenLogError) -> ScheduleLogError {
        match error {
            OpenLogError::Store(error) => error.into(),
            other => {
                ScheduleLogError::Broken { name: self.name.clone(), reason: other.to_string() }
            }
        }
    }
}

/// Why an entry could not be made or appended.
enum AppendError {
    Log(OpenLogError),
    Schedule(ScheduleLogError),
}

impl From<OpenLogError> for AppendError {
    fn from(error: OpenLogError) -> Self {
        Self::Log(error)
    }
}

fn after(last: &StoredEntry<ScheduleEntry>) -> ScheduleHead {
    ScheduleHead {
        position: Position { next: last.entry.seq + 1, head: Some(last.sha256) },
        state: last.entry.before.after(&last.entry.event),
    }
}

/// The names of all schedules of a store, in order.
///
/// # Errors
///
/// If the store fails.
pub async fn names(store: &Store) -> Result<Vec<PipelineName>, StoreError> {
    let mut names: Vec<PipelineName> = Vec::new();
    for folder in store.folders(&schedules_prefix()).await? {
        names.extend(folder.parse());
    }
    names.sort();
    Ok(names)
}
