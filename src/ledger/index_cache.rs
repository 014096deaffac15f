//! Opened segments that stay open, as many as fit into a fixed amount of memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::error::Result;
use crate::record::Segment;
use crate::segment_reader::OpenSegment;
use proofmill_store::{Key, Store};

/// Opened segments, by key.
pub(crate) struct IndexCache {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    slots: HashMap<Key, Slot>,
    bytes: usize,
    /// Counts uses, to tell which segment was not used for longest.
    uses: u64,
}

struct Slot {
    /// Filled by the first who needs the segment, while others wait.
    segment: Arc<OnceCell<Arc<OpenSegment>>>,
    /// What it takes; nothing while it is being opened.
    bytes: usize,
    last_use: u64,
}

impl IndexCache {
    /// A cache that holds about `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, held: Mutex::default() }
    }

    /// The opened segment, from memory or from the store.
    pub async fn open(&self, store: &Store, segment: &Arc<Segment>) -> Result<Arc<OpenSegment>> {
        let cell = self.lock().slot(&segment.key).segment.clone();
        if let Some(open) = cell.get() {
            return Ok(open.clone());
        }
        let opening = || async { OpenSegment::open(store, segment.clone()).await.map(Arc::new) };
        let open = cell.get_or_try_init(opening).await?.clone();
        self.weigh(&open);
        Ok(open)
    }

    /// Keeps an opened segment, in place of those not used for longest.
    pub fn put(&self, segment: Arc<OpenSegment>) {
        let cell = Arc::new(OnceCell::new_with(Some(segment.clone())));
        self.lock().slot(&segment.segment.key).segment = cell;
        self.weigh(&segment);
    }

    /// Forgets all segments but those that `keep` accepts.
    pub fn retain(&self, keep: impl Fn(&Key) -> bool) {
        let mut held = self.lock();
        held.slots.retain(|key, _| keep(key));
        held.bytes = held.slots.values().map(|slot| slot.bytes).sum();
    }

    /// Counts what a segment takes, unless it was forgotten meanwhile, and makes room.
    fn weigh(&self, segment: &OpenSegment) {
        let mut held = self.lock();
        let slot = held.slots.get_mut(&segment.segment.key);
        let Some(slot) = slot.filter(|slot| slot.segment.initialized()) else { return };
        let bytes = segment.memory_bytes();
        let before = std::mem::replace(&mut slot.bytes, bytes);
        held.bytes = held.bytes - before + bytes;
        while held.bytes > self.bytes_max && held.drop_oldest() {}
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes held now.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

impl Held {
    /// The slot of a segment, used now.
    fn slot(&mut self, key: &Key) -> &mut Slot {
        self.uses += 1;
        let new = || Slot { segment: Arc::default(), bytes: 0, last_use: 0 };
        let slot = self.slots.entry(key.clone()).or_insert_with(new);
        slot.last_use = self.uses;
        slot
    }

    fn drop_oldest(&mut self) -> bool {
        let oldest = self.slots.iter().min_by_key(|(_, slot)| slot.last_use);
        let Some(key) = oldest.map(|(key, _)| key.clone()) else { return false };
        if let Some(slot) = self.slots.remove(&key) {
            self.bytes -= slot.bytes;
        }
        true
    }
}
