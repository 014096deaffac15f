//! Requests in flight, so that equal ones are sent once.
//!
//! An entry lives as long as anybody holds it. Of those who do, one asks; if that one gives up,
//! another takes over; the entry's end removes it from the table.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OnceCell;

use super::canonical::Key;
use super::error::Unanswered;

/// Running requests by key.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Weak<Running>>>);

/// A running request.
#[derive(Debug)]
pub(super) struct Running {
    key: Key,
    table: Weak<InFlight>,
    /// What the model said, set once by the holder that asks.
    pub(super) result: OnceCell<Result<Fresh, Unanswered>>,
}

/// An answer as the model gave it, before the ledger says which one counts.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    pub(super) json: String,
    /// Whether it is to be recorded.
    pub(super) counts: bool,
}

impl InFlight {
    /// The running request of a key, new if there is none.
    pub(super) fn claim(self: &Arc<Self>, key: Key) -> Arc<Running> {
        let mut table = self.lock();
        if let Some(running) = table.get(&key).and_then(Weak::upgrade) {
            return running;
        }
        let table_of = Arc::downgrade(self);
        let running = Arc::new(Running { key, table: table_of, result: OnceCell::new() });
        table.insert(key, Arc::downgrade(&running));
        running
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<Running>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let mut table = table.lock();
        // Another may have claimed the key since the last holder let go.
        if table.get(&self.key).is_some_and(|running| running.strong_count() == 0) {
            table.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_shared_while_it_lives_and_leaves_nothing_behind() {
        let table = Arc::<InFlight>::default();
        let (first, second) = (table.claim([1; 32]), table.claim([1; 32]));
        assert!(Arc::ptr_eq(&first, &second));
        let other = table.claim([2; 32]);
        drop(first);
        assert_eq!(table.lock().len(), 2);
        drop(second);
        assert_eq!(table.lock().len(), 1);
        drop(other);
        assert!(table.lock().is_empty());
    }
}
