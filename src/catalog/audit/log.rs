//! Reading the audit log, and appending to it.

use std::sync::atomic::{AtomicBool, Ordering};

use proofmill_base::error::{Error, ErrorKind};
use proofmill_base::rng::random_name;
use proofmill_store::{
    APPEND_ATTEMPTS_MAX, Appended, Extensions, LogFolder, OpenLog, OpenLogError, Position, Store,
    StoreError, StoredEntry,
};
use serde_json::json;

use crate::audit::earlier::{Descent, EARLIER, Earlier, topic};
use crate::audit::entry::{AUDIT_VERSION, AuditEntry, AuditEvent, LogState};
use crate::audit::records::adopted;

/// Entries that are read backwards at a time: first, and at most.
const WINDOW_MIN: u64 = 16;
const WINDOW_MAX: u64 = 256;

/// An entry as it lies in the store.
pub type StoredAuditEntry = StoredEntry<AuditEntry>;

/// Why the audit log cannot be read or continued.
#[derive(Debug, thiserror::Error)]
pub enum AuditLogError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry contradicts those before it, or is missing between others.
    #[error("the audit log of the store is broken: {0}")]
    Broken(String),
    #[error("the audit log took no entry: other processes added {APPEND_ATTEMPTS_MAX} in between")]
    Contended,
}

/// What helps when a part of the log is lost.
const RESTORE: &str = "`proofmill audit verify --all` reports what is wrong; restore the folder `audit` of the store from a backup, \
     or move it away as a whole: the next run starts another log, which no earlier anchor fits";

impl From<OpenLogError> for AuditLogError {
    fn from(error: OpenLogError) -> Self {
        match error {
            OpenLogError::Store(error) => Self::Store(error),
            other => Self::Broken(other.to_string()),
        }
    }
}

impl AuditLogError {
    /// That something is wrong with an entry.
    pub(super) fn of_entry(entry: &AuditEntry, reason: &str) -> Self {
        Self::Broken(format!("entry {} {reason}", entry.seq))
    }
}

impl From<AuditLogError> for Error {
    fn from(error: AuditLogError) -> Self {
        match error {
            AuditLogError::Store(error @ StoreError::Damaged { .. }) => {
                Self::from(error).with_hint(RESTORE)
            }
            AuditLogError::Store(error) => error.into(),
            AuditLogError::Broken(_) => {
                Self::new(ErrorKind::Store, error.to_string()).with_hint(RESTORE)
            }
            AuditLogError::Contended => Self::new(ErrorKind::Store, error.to_string())
                .with_hint("run again when fewer processes write to this store"),
        }
    }
}

/// The audit log of a store.
#[derive(Clone, Debug)]
pub struct AuditLog {
    store: Store,
    log: OpenLog<AuditEntry>,
}

/// The state of the log after its last entry.
#[derive(Clone, Debug)]
pub struct LogHead {
    /// The last entry.
    pub last: StoredAuditEntry,
    /// What all entries together say.
    pub state: LogState,
}

impl AuditLog {
    pub fn of(store: &Store) -> Self {
        Self { store: store.clone(), log: OpenLog::new(LogFolder::of_audit()) }
    }

    /// The last entry; `None` if the store has none.
    ///
    /// # Errors
    ///
    /// If the log is broken there, or the store fails.
    pub async fn last(&self) -> Result<Option<StoredAuditEntry>, AuditLogError> {
        Ok(self.log.head(&self.store).await?)
    }

    /// The entries of these numbers.
    pub(super) async fn at(&self, seqs: &[u64]) -> Result<Vec<StoredAuditEntry>, AuditLogError> {
        Ok(self.log.at(&self.store, seqs).await?)
    }

    /// The entries `from` up to the one before `earliest`.
    pub(super) async fn before(
        &self,
        from: u64,
        earliest: &AuditEntry,
    ) -> Result<Vec<StoredAuditEntry>, AuditLogError> {
        Ok(self.log.before(&self.store, from, earliest).await?)
    }

    /// Where the entries up to `last` have those about `topic`; `None` if it has no index.
    pub(super) async fn earlier(
        &self,
        last: &StoredAuditEntry,
        topic: &str,
    ) -> Result<Option<Earlier>, AuditLogError> {
        let mut descent = Descent::to(topic);
        let mut entry = last.entry.clone();
        loop {
            let wrong = |reason: String| AuditLogError::of_entry(&entry, &reason);
            let Some(index) = Earlier::of(&entry).map_err(wrong)? else {
                // Every entry that an index names has one.
                return Ok(None);
            };
            let Some(next) = descent.step(&entry, &index).map_err(wrong)? else {
                return Ok(Some(descent.end()));
            };
            let Some(stored) = self.at(&[next]).await?.pop() else { return Ok(None) };
            entry = stored.entry;
        }
    }

    /// The head of the log; `None` if the store has none.
    ///
    /// # Errors
    ///
    /// If the log is broken there, or the store fails.
    pub async fn head(&self) -> Result<Option<LogHead>, AuditLogError> {
        self.log.head(&self.store).await?.map(after).transpose()
    }

    /// All entries, after checking that they are one chain, whose trees and open runs are right.
    ///
    /// # Errors
    ///
    /// What breaks the chain, naming the entry; a failure of the store.
    pub async fn all(&self) -> Result<Vec<StoredAuditEntry>, AuditLogError> {
        let entries = self.log.read_on(&self.store, &mut Position::default()).await?;
        let mut state = LogState::default();
        for stored in &entries {
            if LogState::before(&stored.entry).as_ref() != Some(&state) {
                let seq = stored.entry.seq;
                let reason = format!("entry {seq} says of the entries before it what they are not");
                return Err(AuditLogError::Broken(reason));
            }
            state.add(stored);
        }
        Ok(entries)
    }

    /// The entries from the last one backwards.
    pub fn backwards(&self) -> Backwards {
        Backwards { log: self.clone(), earliest: None, window: WINDOW_MIN }
    }

    /// Appends what `event` makes of the head of the log, and gives the head after it; `None` if that is nothing.
    /// The first entry of a store that has runs names them.
    /// When this returns, the entry is durable.
    ///
    /// # Errors
    ///
    /// If the log is broken, or the store fails.
    pub async fn append(
        &self,
        writer: &str,
        event: impl Fn(Option<&LogHead>) -> Option<AuditEvent> + Send + Sync,
    ) -> Result<Option<LogHead>, AuditLogError> {
        let is_first = AtomicBool::new(false);
        let later = |head: Option<&LogHead>| {
            is_first.fetch_or(head.is_none(), Ordering::Relaxed);
            head.and_then(|head| event(Some(head)))
        };
        let appended = self.add(writer, later).await?;
        if !is_first.into_inner() {
            return Ok(appended);
        }
        if let Some(adopted) = adopted(&self.store).await? {
            self.add(writer, |head| head.is_none().then(|| adopted.clone())).await?;
        }
        self.add(writer, event).await
    }

    async fn add(
        &self,
        writer: &str,
        event: impl Fn(Option<&LogHead>) -> Option<AuditEvent> + Send + Sync,
    ) -> Result<Option<LogHead>, AuditLogError> {
        let event = &event;
        let next = |last: Option<StoredAuditEntry>| async move {
            let head = last.map(after).transpose()?;
            let Some(event) = event(head.as_ref()) else { return Ok(None) };
            let mut entry = self.entry(writer, head.as_ref(), event);
            let indexed = match &head {
                Some(head) => self.earlier(&head.last, topic(&entry)).await?,
                None => None,
            };
            let index = indexed.unwrap_or(Earlier { since: entry.seq, ..Earlier::default() });
            entry.extensions.insert(EARLIER.to_owned(), json!(index));
            Ok::<_, AuditLogError>(Some(entry))
        };
        match self.log.append(&self.store, next).await? {
            Appended::Entry(stored) => after(stored).map(Some),
            Appended::Nothing => Ok(None),
            Appended::Contended => Err(AuditLogError::Contended),
        }
    }

    fn entry(&self, writer: &str, head: Option<&LogHead>, event: AuditEvent) -> AuditEntry {
        let Position { next, head: prev } = position(head);
        let state = head.map(|head| head.state.clone()).unwrap_or_default();
        AuditEntry {
            v: AUDIT_VERSION,
            seq: next,
            prev,
            tree: state.tree.peaks().to_vec(),
            open: state.open,
            writer: writer.to_owned(),
            nonce: random_name(self.store.rng().as_ref(), 16),
            t_utc: self.store.clock().now(),
            event,
            extensions: Extensions::new(),
        }
    }
}

/// Reads the log from its head backwards, as far as it is wanted.
#[derive(Debug)]
pub struct Backwards {
    log: AuditLog,
    /// The earliest entry that was given.
    earliest: Option<AuditEntry>,
    window: u64,
}

impl Backwards {
    /// The next entries, latest first, checked against those given before; none at the end.
    ///
    /// # Errors
    ///
    /// As [`AuditLog::all`].
    pub async fn next(&mut self) -> Result<Vec<StoredAuditEntry>, AuditLogError> {
        let AuditLog { store, log } = &self.log;
        let mut entries = match &self.earliest {
            None => log.head(store).await?.into_iter().collect(),
            Some(earliest) => {
                let from = earliest.seq.saturating_sub(self.window);
                self.window = (self.window * 2).min(WINDOW_MAX);
                log.before(store, from, earliest).await?
            }
        };
        entries.reverse();
        if let Some(last) = entries.last() {
            self.earliest = Some(last.entry.clone());
        }
        Ok(entries)
    }
}

fn position(head: Option<&LogHead>) -> Position {
    head.map_or_else(Position::default, |head| Position {
        next: head.last.entry.seq + 1,
        head: Some(head.last.sha256),
    })
}

/// The head whose last entry is `last`.
fn after(last: StoredAuditEntry) -> Result<LogHead, AuditLogError> {
    let seq = last.entry.seq;
    let mut state = LogState::before(&last.entry).ok_or_else(|| {
        AuditLogError::Broken(format!("the hash tree of entry {seq} is not one of {seq} entries"))
    })?;
    state.add(&last);
    Ok(LogHead { last, state })
}
