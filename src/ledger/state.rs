//! What the log amounts to: the segments that count, in the order in which they were committed.

use std::sync::Arc;

use crate::LedgerError;
use crate::error::Result;
use crate::record::{Body, Checkpoint, Forgotten, LEDGER_VERSION, LogEntry, Segment};
use proofmill_base::digest::Digest;
use proofmill_store::{Key, ledger_log_key, unseal};

/// The ledger after a number of entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// Number of the next entry.
    pub next: u64,
    /// Digest of the entry before it; none at the start.
    pub head: Option<Digest>,
    /// The segments; of two answers to one request, the one in the earlier segment counts.
    pub live: Vec<Arc<Segment>>,
    /// The forgettings, in the order of the log.
    pub forgotten: Arc<Vec<Forgotten>>,
}

impl State {
    /// The state that a checkpoint records.
    pub fn of(checkpoint: Checkpoint) -> Self {
        let live = checkpoint.live.into_iter().map(Arc::new).collect();
        let forgotten = Arc::new(checkpoint.forgotten);
        Self { next: checkpoint.seq + 1, head: Some(checkpoint.head), live, forgotten }
    }

    /// The checkpoint that records this state; none before the first entry.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let live = self.live.iter().map(|segment| segment.as_ref().clone()).collect();
        let seq = self.next.checked_sub(1)?;
        let forgotten = self.forgotten.as_ref().clone();
        Some(Checkpoint { v: LEDGER_VERSION, seq, head: self.head?, live, forgotten })
    }

    /// Takes in the stored bytes of the next entry.
    pub fn admit(&mut self, bytes: &[u8]) -> Result<()> {
        let seq = self.next;
        let entry: LogEntry = unseal(&ledger_log_key(seq), bytes)?;
        let broken = |reason: String| LedgerError::Broken { seq, reason };
        if entry.seq != seq {
            return Err(broken(format!("says that it is entry {}", entry.seq)));
        }
        if entry.prev != self.head {
            return Err(broken("does not continue the entry before it".into()));
        }
        match entry.body {
            Body::Append(segment) => {
                let past = self.forgotten.len() as u64;
                self.live.push(Arc::new(Segment { past, ..segment }));
            }
            Body::Merge { from, into } => {
                let Some(at) = self.position(&from) else {
                    return Err(broken("merges segments that are not neighbours".into()));
                };
                if into.past > self.forgotten.len() as u64 {
                    return Err(broken("leaves out answers that were not forgotten".into()));
                }
                self.live.splice(at..at + from.len(), [Arc::new(into)]);
            }
            Body::Forget(forget) => {
                Arc::make_mut(&mut self.forgotten).push(Forgotten { t_utc: entry.t_utc, forget });
            }
        }
        self.head = Some(Digest::of(bytes));
        self.next += 1;
        Ok(())
    }

    /// Where the segments `keys` lie as neighbours in this order.
    pub fn position(&self, keys: &[Key]) -> Option<usize> {
        let first = keys.first()?;
        let at = self.live.iter().position(|segment| segment.key == *first)?;
        let there = self.live.get(at..at + keys.len())?;
        there.iter().map(|segment| &segment.key).eq(keys).then_some(at)
    }

    /// The forgettings that concern rows of a segment which `past` do not.
    pub fn concerning(&self, past: u64) -> &[Forgotten] {
        let past = usize::try_from(past).unwrap_or(usize::MAX);
        self.forgotten.get(past..).unwrap_or_default()
    }

    /// True when a segment of this key counts.
    pub fn names(&self, key: &Key) -> bool {
        self.live.iter().any(|segment| segment.key == *key)
    }
}
