//! The chain of a memory in the store. No process owns it: a writer reads to the head and creates
//! the next entry; a writer that finds its place taken reads on, checks again and tries again.

use std::collections::BTreeMap;

use crate::memory::entry::Place;
use crate::memory::error::Result;
use crate::memory::state::{Applied, undone_by};
use crate::memory::{Action, Conflict, JournalEntry, Lesson, MemoryError, State};
use proofmill_base::digest::Digest;
use proofmill_base::ids::MemoryName;
use proofmill_base::rng::random_name;
use proofmill_base::suggest;
use proofmill_store::{
    Created, Key, Store, memories_prefix, memory_key, memory_prefix, seal, unseal,
};

/// Entries that a reader asks for at a time: first, and at most.
const WINDOW_MIN: u64 = 8;
const WINDOW_MAX: u64 = 128;
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
    head: Option<Digest>,
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
        let mut journal = Self { store, name, entries, head: None, state };
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
            prev: self.head,
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

    /// Stores `entry` as the next one; false if somebody else's is there already.
    async fn create(&mut self, entry: &JournalEntry) -> Result<bool> {
        let key = memory_key(&self.name, entry.seq);
        let bytes = seal(&key, entry)?;
        match self.store.create(&key, bytes.clone()).await? {
            Created::Won => self.admit(&bytes).map(|()| true),
            Created::Lost(_) => Ok(false),
        }
    }

    /// Reads from where it stands to the head.
    async fn read_on(&mut self) -> Result<()> {
        let before = self.entries.len();
        let mut window = WINDOW_MIN;
        loop {
            let next = self.entries.len() as u64 + 1;
            let keys: Vec<Key> =
                (next..next + window).map(|seq| memory_key(&self.name, seq)).collect();
            let found = self.store.get_all(&keys).await?;
            for bytes in found.iter().map_while(Option::as_ref) {
                self.admit(bytes)?;
            }
            if found.iter().any(Option::is_none) && !self.grew().await? {
                break;
            }
            window = (window * 2).min(WINDOW_MAX);
        }
        if self.entries.len() > before {
            self.state = State::of(&self.entries);
        }
        Ok(())
    }

    /// True when the next entry exists after all, because somebody adds to it right now. Without a next
    /// entry there must be no later one either: then somebody removed an entry.
    async fn grew(&self) -> Result<bool> {
        let seq = self.entries.len() as u64 + 1;
        let listed = self.store.list(&memory_prefix(&self.name)).await?;
        if !listed.iter().any(|key| number(key).is_some_and(|found| found >= seq)) {
            return Ok(false);
        }
        match self.store.get_opt(&memory_key(&self.name, seq)).await? {
            Some(_) => Ok(true),
            None => Err(MemoryError::Gap { memory: self.name.clone(), seq }),
        }
    }

    /// Takes in the stored bytes of the next entry. The state is for the caller to bring up to date.
    fn admit(&mut self, bytes: &[u8]) -> Result<()> {
        let seq = self.entries.len() as u64 + 1;
        let entry: JournalEntry = unseal(&memory_key(&self.name, seq), bytes)?;
        let broken =
            |reason: String| Err(MemoryError::Broken { memory: self.name.clone(), seq, reason });
        if entry.memory != self.name || entry.seq != seq {
            return broken(format!("says that it is entry {} of `{}`", entry.seq, entry.memory));
        }
        if entry.prev != self.head {
            return broken("does not continue the entry before it".to_owned());
        }
        self.entries.push(entry);
        self.head = Some(Digest::of(bytes));
        Ok(())
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
        if let (Some(name), Some(seq)) = (name, number(&key)) {
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

/// The number of an entry by its key.
fn number(key: &Key) -> Option<u64> {
    let digits = key.as_str().rsplit('/').next()?.strip_suffix(".json")?;
    let whole = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    whole.then(|| digits.parse().ok()).flatten()
}
