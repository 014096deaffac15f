//! Logs that no process owns: numbered entries, each created once, each naming the digest of the one before.
//!
//! To append, a writer reads to the head and creates the next entry.
//! If its place is taken, it reads on, decides anew and tries again; log order decides, no clock does.
//! The ledger, each memory and the audit log are such logs; they differ in what entries say,
//! and in what a writer does between two attempts.

use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;

use crate::numbered::{self, LogFolder};
use crate::sealed::{Record, seal, unseal};
use crate::{Created, Head, Key, Store, StoreError};
use proofmill_base::digest::Digest;

/// Keys that one round of the search for the head looks at.
const PROBES: u64 = 16;
/// Times that an entry is tried because other writers were faster.
pub const APPEND_ATTEMPTS_MAX: u32 = 64;

/// An entry of an open log.
pub trait LogRecord: Record + Serialize + Send + Sync {
    /// The number that the entry says it has.
    fn seq(&self) -> u64;
    /// The digest of the stored bytes of the entry before.
    fn prev(&self) -> Option<Digest>;
}

/// What the next entry must continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the next entry.
    pub next: u64,
    /// Digest of the stored bytes of the entry before it; none at the start.
    pub head: Option<Digest>,
}

/// An entry of any open log, of which only its place in the chain is read.
#[derive(Debug, Serialize, serde::Deserialize)]
pub struct ChainOnly {
    seq: u64,
    prev: Option<Digest>,
}

impl Record for ChainOnly {
    const VERSION: u32 = u32::MAX;
    const OLDEST: u32 = 0;
}

impl LogRecord for ChainOnly {
    fn seq(&self) -> u64 {
        self.seq
    }

    fn prev(&self) -> Option<Digest> {
        self.prev
    }
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenLogError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry contradicts those before it.
    #[error("entry {seq} {reason}")]
    Broken { seq: u64, reason: String },
    /// An entry is missing between others.
    #[error("entry {seq} is missing, later entries exist")]
    Gap { seq: u64 },
}

/// Result with the error of a log.
type Result<T> = std::result::Result<T, OpenLogError>;

/// The log in a folder, with entries of one type.
#[derive(Clone, Debug)]
pub struct OpenLog<E> {
    pub folder: LogFolder,
    entry: PhantomData<fn() -> E>,
}

/// What became of an entry that was to be appended.
#[derive(Debug)]
pub enum Appended<E> {
    /// It is the last one now.
    Entry(StoredEntry<E>),
    /// There was nothing to append.
    Nothing,
    /// Other writers were faster, [`APPEND_ATTEMPTS_MAX`] times.
    Contended,
}

/// An entry as it lies in the store.
#[derive(Clone, Debug)]
pub struct StoredEntry<E> {
    pub entry: E,
    /// Digest of its stored bytes.
    pub sha256: Digest,
    pub bytes: Bytes,
}

impl<E: LogRecord> OpenLog<E> {
    pub fn new(folder: LogFolder) -> Self {
        Self { folder, entry: PhantomData }
    }

    /// Checks that `bytes` are the next entry, and moves `position` behind it.
    ///
    /// # Errors
    ///
    /// If they are damaged, or do not continue the log.
    pub fn admit(&self, position: &mut Position, bytes: &Bytes) -> Result<StoredEntry<E>> {
        let stored = self.parse(position.next, bytes)?;
        if stored.entry.prev() != position.head {
            let reason = "does not continue the entry before it".to_owned();
            return Err(OpenLogError::Broken { seq: position.next, reason });
        }
        *position = Position { next: position.next + 1, head: Some(stored.sha256) };
        Ok(stored)
    }

    fn parse(&self, seq: u64, bytes: &Bytes) -> Result<StoredEntry<E>> {
        let entry: E = unseal(&self.folder.entry(seq), bytes)?;
        if entry.seq() != seq {
            let reason = format!("says that it is entry {}", entry.seq());
            return Err(OpenLogError::Broken { seq, reason });
        }
        Ok(StoredEntry { entry, sha256: Digest::of(bytes), bytes: bytes.clone() })
    }

    /// Reads from `position` to the head, and moves it there.
    ///
    /// # Errors
    ///
    /// What breaks the chain, naming the entry; a failure of the store.
    pub async fn read_on(
        &self,
        store: &Store,
        position: &mut Position,
    ) -> Result<Vec<StoredEntry<E>>> {
        let (from, mut entries) = (position.next, Vec::new());
        let take = |bytes: &Bytes| {
            entries.push(self.admit(position, bytes)?);
            Ok(())
        };
        numbered::read_following(store, &self.folder, from, take, |seq| OpenLogError::Gap { seq })
            .await?;
        Ok(entries)
    }

    /// Stores `entry` under its number: the stored bytes, or `None` if another writer's entry is there already.
    ///
    /// # Errors
    ///
    /// As [`Store::create`].
    pub async fn create(&self, store: &Store, entry: &E) -> Result<Option<Bytes>> {
        let key = self.folder.entry(entry.seq());
        let bytes = seal(&key, entry)?;
        Ok(match store.create(&key, bytes.clone()).await? {
            Created::Won => Some(bytes),
            Created::Lost(_) => None,
        })
    }

    /// Appends what `next` makes of the last entry of a log without checkpoints. If another writer is faster, `next` decides
    /// anew. When this returns, the entry is durable.
    ///
    /// # Errors
    ///
    /// If the log is broken, the store fails, or `next` does.
    pub async fn append<X: From<OpenLogError>, F>(
        &self,
        store: &Store,
        next: impl Fn(Option<StoredEntry<E>>) -> F + Send,
    ) -> std::result::Result<Appended<E>, X>
    where
        F: Future<Output = std::result::Result<Option<E>, X>> + Send,
    {
        let mut last = self.head(store).await?;
        for _ in 0..APPEND_ATTEMPTS_MAX {
            let Some(entry) = next(last.take()).await? else { return Ok(Appended::Nothing) };
            let mut position = Position { next: entry.seq(), head: entry.prev() };
            if let Some(bytes) = self.create(store, &entry).await? {
                return Ok(Appended::Entry(self.admit(&mut position, &bytes)?));
            }
            last = match self.read_on(store, &mut position).await?.pop() {
                Some(newest) => Some(newest),
                // The one in its place is gone again.
                None => self.head(store).await?,
            };
        }
        Ok(Appended::Contended)
    }

    /// The last entry of a log without checkpoints, found in few requests however long the log is; `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`OpenLogError::Gap`] where an entry is missing between others; a damaged entry; a failure of the store.
    pub async fn head(&self, store: &Store) -> Result<Option<StoredEntry<E>>> {
        loop {
            let next = self.first_missing(store).await?;
            let first = self.folder.first();
            if numbered::exists_from(store, &self.folder, next).await? {
                match store.get_opt(&self.folder.entry(next)).await? {
                    // A writer appends right now.
                    Some(_) => continue,
                    None => return Err(OpenLogError::Gap { seq: next }),
                }
            }
            if next == first {
                return Ok(None);
            }
            let bytes = store.get(&self.folder.entry(next - 1)).await?;
            store.saw(self.folder.path(), next - 1);
            return self.parse(next - 1, &bytes).map(Some);
        }
    }

    /// A number whose entry is missing while that before it exists: the first missing one, where none is missing between
    /// others.
    async fn first_missing(&self, store: &Store) -> Result<u64> {
        let first = self.folder.first();
        // Known to exist below `from`, and to be missing at `to`. The last entry that this process saw is looked at again.
        let (mut from, mut to) = (store.seen(self.folder.path()).max(first), None::<u64>);
        loop {
            let probes: Vec<u64> = match to {
                // Each as far again: 1, 2, 4 … entries further.
                None => (0..PROBES).map(|i| from + (1 << i) - 1).collect(),
                Some(to) if to == from => return Ok(from),
                Some(to) => {
                    let step = (to - from).div_ceil(PROBES).max(1);
                    (0..PROBES).map(|i| from + i * step).take_while(|seq| *seq < to).collect()
                }
            };
            let keys: Vec<Key> = probes.iter().map(|seq| self.folder.entry(*seq)).collect();
            let found = store.present_all(&keys).await?;
            match found.iter().position(|exists| !exists) {
                None => from = probes.last().map_or(from, |seq| seq + 1),
                // The log was cut since.
                Some(0) if to.is_none() && from > first => (from, to) = (first, Some(probes[0])),
                Some(0) => to = Some(probes[0]),
                Some(at) => (from, to) = (probes[at - 1] + 1, Some(probes[at])),
            }
            if to == Some(from) {
                return Ok(from);
            }
        }
    }

    /// The entries of these numbers, each by itself.
    ///
    /// # Errors
    ///
    /// If one is missing or damaged; a failure of the store.
    pub async fn at(&self, store: &Store, seqs: &[u64]) -> Result<Vec<StoredEntry<E>>> {
        let keys: Vec<Key> = seqs.iter().map(|seq| self.folder.entry(*seq)).collect();
        let found = store.get_all(&keys).await?.into_iter().zip(seqs);
        found
            .map(|(bytes, seq)| self.parse(*seq, &bytes.ok_or(OpenLogError::Gap { seq: *seq })?))
            .collect()
    }

    /// The entries `from` up to the one before `to`, checked against each other and against `next`, the entry numbered `to`.
    ///
    /// # Errors
    ///
    /// If one is missing or damaged, or they are no chain that `next` continues; a failure of the store.
    pub async fn before(&self, store: &Store, from: u64, next: &E) -> Result<Vec<StoredEntry<E>>> {
        let seqs: Vec<u64> = (from..next.seq()).collect();
        let entries = self.at(store, &seqs).await?;
        let nexts = entries.iter().skip(1).map(|stored| &stored.entry).chain([next]);
        for (stored, next) in entries.iter().zip(nexts) {
            if next.prev() != Some(stored.sha256) {
                let reason = "does not continue the entry before it".to_owned();
                return Err(OpenLogError::Broken { seq: next.seq(), reason });
            }
        }
        Ok(entries)
    }
}

impl LogFolder {
    /// The last entry of the log; `None` if it has none.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn last(&self, store: &Store) -> std::result::Result<Option<Head>, StoreError> {
        if !self.has_checkpoints() {
            // Found in few requests, however long the log is. One that is broken is for its readers to report.
            let head = match OpenLog::<ChainOnly>::new(self.clone()).head(store).await {
                Ok(head) => head,
                Err(OpenLogError::Store(error)) if !error.is_broken_record() => return Err(error),
                Err(_) => None,
            };
            return Ok(head.map(|last| Head { seq: last.entry.seq(), sha256: last.sha256 }));
        }
        let Some(seq) = self.extent(store).await?.entry else { return Ok(None) };
        // One that is removed meanwhile is covered by a checkpoint.
        let bytes = store.get_opt(&self.entry(seq)).await?;
        Ok(bytes.map(|bytes| Head { seq, sha256: Digest::of(&bytes) }))
    }
}
