//! Memories as stages read them: fetched once, before stages are prepared.

use std::collections::BTreeMap;

use crate::memory::error::Result;
use crate::memory::journal::similar;
use crate::memory::{Journal, JournalEntry, State};
use proofmill_base::ids::MemoryName;
use proofmill_store::Store;

/// The memories that a pipeline names, as they were when it was loaded.
#[derive(Clone, Debug, Default)]
pub struct Memories(BTreeMap<MemoryName, StoredMemory>);

/// A memory as it was.
#[derive(Clone, Debug)]
pub struct StoredMemory {
    entries: Vec<JournalEntry>,
    /// The memory that may be meant, if this one has no entries.
    pub near: Option<String>,
}

impl Memories {
    /// Reads the memories `names`.
    ///
    /// # Errors
    ///
    /// What breaks a memory; a failure of the store.
    pub async fn read(
        store: &Store,
        names: impl IntoIterator<Item = MemoryName> + Send,
    ) -> Result<Self> {
        let mut memories = BTreeMap::new();
        for name in names.into_iter().collect::<Vec<_>>() {
            let entries = Journal::open(store, &name).await?.entries().to_vec();
            let near = if entries.is_empty() { similar(store, &name).await? } else { None };
            memories.insert(name, StoredMemory { entries, near });
        }
        Ok(Self(memories))
    }

    /// A memory; `None` where memories are not read, as when a pipeline is only checked.
    pub fn get(&self, name: &MemoryName) -> Option<&StoredMemory> {
        self.0.get(name)
    }
}

impl StoredMemory {
    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// True if it was never taught.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What its first `until` entries amount to; all of them when `None`.
    pub fn state(&self, until: Option<u64>) -> State {
        let until = until.and_then(|until| usize::try_from(until).ok()).unwrap_or(usize::MAX);
        State::of(&self.entries[..until.min(self.entries.len())])
    }
}
