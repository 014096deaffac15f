//! Numbered objects in a folder, as all logs consist of them: their keys, and reading them up to the last.

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::ObjectStore as _;
use object_store::path::Path;

use crate::listing::{names, unlisted};
use crate::{Key, Store, StoreError};
use proofmill_base::ids::{MemoryName, PipelineName, RunId};

/// Entries that a reader requests at a time: first, and at most.
const WINDOW_MIN: u64 = 8;
const WINDOW_MAX: u64 = 128;
/// Digits of a number in a key.
const DIGITS: usize = 20;

/// The folder of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFolder {
    path: String,
    /// Number of the first entry.
    first: u64,
}

/// What a key in the folder of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    Entry(u64),
    /// The state after the entry of this number.
    Checkpoint(u64),
}

impl LogFolder {
    /// The log of a run.
    pub fn of_run(run: &RunId) -> Self {
        Self { path: format!("runs/{run}/log"), first: 0 }
    }

    /// A memory, whose entries count from 1.
    pub fn of_memory(memory: &MemoryName) -> Self {
        Self { path: format!("memories/{memory}"), first: 1 }
    }

    /// The log of the ledger.
    pub fn of_ledger() -> Self {
        Self { path: "ledger/log".to_owned(), first: 0 }
    }

    /// The audit log.
    pub fn of_audit() -> Self {
        Self { path: "audit/log".to_owned(), first: 0 }
    }

    /// The log of a schedule.
    pub fn of_schedule(schedule: &PipelineName) -> Self {
        Self { path: format!("schedules/{schedule}"), first: 0 }
    }

    /// The log of the ledger, a memory or a schedule, by its name in the audit log; `None` for any other name.
    pub fn of_name(name: &str) -> Option<Self> {
        match name.split_once('/') {
            Some(("memories", memory)) => memory.parse().ok().map(|name| Self::of_memory(&name)),
            Some(("schedules", name)) => name.parse().ok().map(|name| Self::of_schedule(&name)),
            _ => (name == "ledger").then(Self::of_ledger),
        }
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Its name in the audit log.
    pub fn name(&self) -> &str {
        self.path.strip_suffix("/log").unwrap_or(&self.path)
    }

    /// Whether entries are removed once a checkpoint covers them, so that the log does not begin with its first.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.name() == "ledger"
    }

    /// Number of the first entry.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The folder.
    pub fn prefix(&self) -> Path {
        Path::from(self.path.as_str())
    }

    /// The key of entry `seq`.
    pub fn entry(&self, seq: u64) -> Key {
        Key::of_layout(format!("{}/{seq:0DIGITS$}.json", self.path))
    }

    /// The key of the state after entry `seq`.
    pub fn checkpoint(&self, seq: u64) -> Key {
        Key::of_layout(format!("{}/{seq:0DIGITS$}.checkpoint.json", self.path))
    }
}

/// The last numbers in the folder of a log, as one listing shows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    pub entry: Option<u64>,
    pub checkpoint: Option<u64>,
}

impl LogFolder {
    /// What a listing shows of the log.
    ///
    /// # Errors
    ///
    /// When the store cannot list.
    pub async fn extent(&self, store: &Store) -> Result<Extent, StoreError> {
        let mut extent = Extent::default();
        for key in store.list(&self.prefix()).await? {
            match Numbered::of(&key) {
                Some(Numbered::Entry(seq)) => extent.entry = extent.entry.max(Some(seq)),
                Some(Numbered::Checkpoint(seq)) => {
                    extent.checkpoint = extent.checkpoint.max(Some(seq));
                }
                None => {}
            }
        }
        Ok(extent)
    }
}

impl Numbered {
    /// What the name of `key` says.
    pub fn of(key: &Key) -> Option<Self> {
        Self::of_name(key.as_str().rsplit('/').next()?)
    }

    /// What the name of an object says.
    fn of_name(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".json")?;
        let (digits, of): (&str, fn(u64) -> Self) = match name.strip_suffix(".checkpoint") {
            Some(digits) => (digits, Self::Checkpoint),
            None => (name, Self::Entry),
        };
        let whole = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
        // The last number has none after it, and stands in no log of ours.
        let number = whole.then(|| digits.parse().ok()).flatten();
        number.filter(|number| *number < u64::MAX).map(of)
    }
}

/// Reads the entries `from` and following until one is missing. Makes sure by a listing that no later one exists: it would
/// mean that an entry was removed, of which `gap` makes an error.
pub(crate) async fn read_following<E: From<StoreError>>(
    store: &Store,
    folder: &LogFolder,
    from: u64,
    mut take: impl FnMut(&Bytes) -> Result<(), E> + Send,
    gap: impl Fn(u64) -> E + Send + Sync,
) -> Result<(), E> {
    let (mut next, mut window) = (from, WINDOW_MIN);
    loop {
        let keys: Vec<Key> = (next..next + window).map(|seq| folder.entry(seq)).collect();
        let found = store.get_all(&keys).await?;
        for bytes in found.iter().map_while(Option::as_ref) {
            take(bytes)?;
            next += 1;
        }
        if found.iter().any(Option::is_none) {
            if !exists_from(store, folder, next).await? {
                return Ok(());
            }
            // Unless a writer appends right now.
            if store.get_opt(&folder.entry(next)).await?.is_none() {
                return Err(gap(next));
            }
        }
        window = (window * 2).min(WINDOW_MAX);
    }
}

/// True when the log has entry `seq` or a later one.
pub(crate) async fn exists_from(
    store: &Store,
    folder: &LogFolder,
    seq: u64,
) -> Result<bool, StoreError> {
    let prefix = folder.prefix();
    let key = Key::try_from(prefix.to_string())?;
    if let Some(local) = store.local() {
        let names = names(local.root().join(key.as_str()), false).await;
        let names = names.map_err(|error| unlisted(&key, error))?;
        let mut found = names.iter().filter_map(|name| Numbered::of_name(name));
        return Ok(found.any(|it| matches!(it, Numbered::Entry(found) if found >= seq)));
    }
    let offset = seq.checked_sub(1).map(|before| folder.entry(before));
    let look = || async {
        let mut listed = match &offset {
            Some(before) => store.objects().list_with_offset(Some(&prefix), before.path()),
            None => store.objects().list(Some(&prefix)),
        };
        while let Some(meta) = listed.try_next().await? {
            let found = Key::try_from(meta.location.to_string()).ok();
            let found = found.and_then(|key| Numbered::of(&key));
            if matches!(found, Some(Numbered::Entry(found)) if found >= seq) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    store.retry("list", &key, look).await
}
