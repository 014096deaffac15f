//! The chain of a memory in the store. No process owns it: a writer reads to the head and creates
//! the next entry; a writer that finds its place taken reads on, checks again and tries again.

use std::collections::BTreeMap;

use crate::memory::entry::Place;
use crate::memory::error::Result;
use crate::memory::state::{Applied, undone_by};
use crate::memory::{Action, Conflict, JournalEntry, Lesson, MemoryError, State};
use proofmill_base::ids::MemoryName;
use proofmill_base::rng::random_name;
use proofmill_base::suggest;
use proofmill_store::{
    LogFolder, Numbered, OpenLog, OpenLogError, Position, Store, StoredEntry, memories_prefix,
};

/// Times that an entry is tried because others were faster.
const ATTEMPTS_MAX: u32 = 64;

/// What becomes of a fact that conflicts with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// It is added, and the conflicts are reported.
    Show,
    /// It is not added.
    Refuse,
}

/// What became of a lesson.
#[derive(Clone, Debug, PartialEq)]
pub enum Taught {
    /// It is the entry of this number.
    Entry {
        seq: u64,
        /// Facts that the new one conflicts with.
        conflicts: Vec<Conflict>,
    },
    /// Nothing would change: the entry of this number says so already.
    Known { seq: u64 },
}

/// A memory as it was when it was last read.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Store,
    name: MemoryName,
    entries: Vec<JournalEntry>,
    position: Position,
    state: State,
}

impl Journal {
    /// Reads all entries. A memory that was never taught has none.
    ///
    /// # Errors
    ///
    /// What breaks the chain, naming the entry; a failure of the store.
    pub async fn open(store: &Store, name: &MemoryName) -> Result<Self> {
        let (store, name) = (store.clone(), name.clone());
        let (entries, state) = (Vec::new(), State::default());
        let position = Position { next: LogFolder::of_memory(&name).first(), head: None };
        let mut journal = Self { store, name, entries, position, state };
        journal.read_on().await?;
        Ok(journal)
    }

    /// As [`Self::open`], of a memory that has entries.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Unknown`] when it has none.
    pub async fn open_known(store: &Store, name: &MemoryName) -> Result<Self> {
        let journal = Self::open(store, name).await?;
        if journal.entries.is_empty() {
            let near = similar(store, name).await?;
            return Err(MemoryError::Unknown { memory: name.clone(), near });
        }
        Ok(journal)
    }

    pub fn name(&self) -> &MemoryName {
        &self.name
    }

    /// All entries, the first on top.
    pub fn entries(&self) -> &[JournalEntry] {
        &self.entries
    }

    /// What they amount to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// For each entry, the later entry that undoes it, if one does.
    pub fn undone_by(&self) -> Vec<Option<u64>> {
        undone_by(&self.entries)
    }

    /// Adds what a user teaches. When this returns an entry, it is durable.
    ///
    /// # Errors
    ///
    /// What the memory does not take, also because of what others added meanwhile; what breaks the
    /// chain; a failure of the store.
    pub async fn teach(&mut self, lesson: &Lesson, conflicts: Conflicts) -> Result<Taught> {
        for _ in 0..ATTEMPTS_MAX {
            let entry = JournalEntry::new(self.place(), lesson);
            let stored = match self.take(&entry, conflicts) {
                Ok(taught @ Taught::Entry { .. }) => {
                    self.create(&entry).await.map(|won| won.then_some(taught))
                }
                known => known.map(Some),
            };
            if let Ok(Some(taught)) = stored {
                return Ok(taught);
            }
            self.state = State::of(&self.entries);
            stored?;
            self.read_on().await?;
        }
        Err(MemoryError::Contended { memory: self.name.clone(), attempts: ATTEMPTS_MAX })
    }

    /// Finds out what all `lessons` would do, one after the other, without adding any: the position of
    /// the first that is not taken, with the reason.
    ///
    /// # Errors
    ///
    /// As for [`Self::teach`].
    pub fn rehearse(
        &self,
        lessons: &[Lesson],
        conflicts: Conflicts,
    ) -> Result<(), (usize, Box<MemoryError>)> {
        let mut imagined = self.clone();
        for (at, lesson) in lessons.iter().enumerate() {
            let entry = JournalEntry::new(imagined.place(), lesson);
            let refused = |error| (at, Box::new(error));
            let taught = imagined.take(&entry, conflicts).map_err(refused)?;
            if matches!(taught, Taught::Entry { .. }) {
                imagined.entries.push(entry);
            }
        }
        Ok(())
    }

    fn place(&self) -> Place {
        Place {
            memory: self.name.clone(),
            seq: self.entries.len() as u64 + 1,
            prev: self.position.head,
            nonce: random_name(self.store.rng().as_ref(), 16),
            t_utc: self.store.clock().now(),
        }
    }

    /// Takes the next entry into the state, before it is stored. If it is not stored after all, or not
    /// taken, the state is for the caller to make anew.
    fn take(&mut self, entry: &JournalEntry, conflicts: Conflicts) -> Result<Taught> {
        self.state.accepts(&entry.action, &self.entries)?;
        if let Applied::Known(seq) = self.state.apply(entry) {
            return Ok(Taught::Known { seq });
        }
        if let Action::Undo { .. } = entry.action {
            let all: Vec<JournalEntry> = self.entries.iter().chain([entry]).cloned().collect();
            self.state = State::of(&all);
        }
        let found = entry.action.new_fact().map(|fact| self.state.conflicts_with(fact));
        let found = found.unwrap_or_default();
        if let (Conflicts::Refuse, Some(first)) = (conflicts, found.first()) {
            let with: Vec<String> = found.iter().map(Conflict::other).collect();
            let fact = first.fact.to_string();
            return Err(MemoryError::Conflict { fact, with: with.join("; ") });
        }
        Ok(Taught::Entry { seq: entry.seq, conflicts: found })
    }

    /// Stores `entry` as the next one; false if another writer's is there already.
    async fn create(&mut self, entry: &JournalEntry) -> Result<bool> {
        let created = self.log().create(&self.store, entry).await;
        let Some(bytes) = created.map_err(|error| self.failed(error))? else { return Ok(false) };
        let mut position = self.position;
        let stored = self.log().admit(&mut position, &bytes);
        self.entries.push(stored.map_err(|error| self.failed(error))?.entry);
        self.position = position;
        Ok(true)
    }

    /// Reads from where it stands to the head.
    async fn read_on(&mut self) -> Result<()> {
        let mut position = self.position;
        let read = self.log().read_on(&self.store, &mut position).await;
        let read = read.map_err(|error| self.failed(error))?;
        if read.is_empty() {
            return Ok(());
        }
        for StoredEntry { entry, .. } in read {
            if entry.memory != self.name {
                let reason = format!("is one of `{}`", entry.memory);
                return Err(MemoryError::Broken {
                    memory: self.name.clone(),
                    seq: entry.seq,
                    reason,
                });
            }
            self.entries.push(entry);
        }
        self.position = position;
        self.state = State::of(&self.entries);
        Ok(())
    }

    fn log(&self) -> OpenLog<JournalEntry> {
        OpenLog::new(LogFolder::of_memory(&self.name))
    }

    fn failed(&self, error: OpenLogError) -> MemoryError {
        let memory = self.name.clone();
        match error {
            OpenLogError::Store(error) => error.into(),
            OpenLogError::Broken { seq, reason } => MemoryError::Broken { memory, seq, reason },
            OpenLogError::Gap { seq } => MemoryError::Gap { memory, seq },
        }
    }
}

/// The memories of a store by name, with the number of their entries.
///
/// # Errors
///
/// When the store cannot list.
pub async fn catalog(store: &Store) -> Result<BTreeMap<MemoryName, u64>> {
    let mut memories = BTreeMap::new();
    for key in store.list(&memories_prefix()).await? {
        let name = key.as_str().split('/').nth(1).and_then(|name| name.parse().ok());
        if let (Some(name), Some(Numbered::Entry(seq))) = (name, Numbered::of(&key)) {
            let last: &mut u64 = memories.entry(name).or_default();
            *last = seq.max(*last);
        }
    }
    Ok(memories)
}

/// The memory whose name is nearest to `name`, which no memory has.
pub(crate) async fn similar(store: &Store, name: &MemoryName) -> Result<Option<String>> {
    let memories = catalog(store).await?;
    let names = memories.keys().filter(|known| *known != name).map(MemoryName::as_str);
    Ok(suggest::nearest(name.as_str(), names).map(str::to_owned))
}
