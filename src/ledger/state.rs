//! What the log amounts to: the segments that count, in the order in which they were committed.

use std::sync::Arc;

use bytes::Bytes;

use crate::LedgerError;
use crate::error::Result;
use crate::record::{Body, Checkpoint, Forgotten, LEDGER_VERSION, Segment, log};
use proofmill_store::{Key, Position};

/// The ledger after a number of entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub position: Position,
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
        let position = Position { next: checkpoint.seq + 1, head: Some(checkpoint.head) };
        Self { position, live, forgotten }
    }

    /// The checkpoint that records this state; none before the first entry.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let live = self.live.iter().map(|segment| segment.as_ref().clone()).collect();
        let seq = self.position.next.checked_sub(1)?;
        let forgotten = self.forgotten.as_ref().clone();
        Some(Checkpoint { v: LEDGER_VERSION, seq, head: self.position.head?, live, forgotten })
    }

    /// Takes in the stored bytes of the next entry.
    pub fn admit(&mut self, bytes: &Bytes) -> Result<()> {
        let mut position = self.position;
        let broken = |reason: &str| LedgerError::Broken {
            seq: self.position.next,
            reason: reason.to_owned(),
        };
        let entry = log().admit(&mut position, bytes)?.entry;
        match entry.body {
            Body::Append(segment) => {
                let past = self.forgotten.len() as u64;
                self.live.push(Arc::new(Segment { past, ..segment }));
            }
            Body::Merge { from, into } => {
                let Some(at) = self.position(&from) else {
                    return Err(broken("merges segments that are not neighbours"));
                };
                if into.past > self.forgotten.len() as u64 {
                    return Err(broken("leaves out answers that were not forgotten"));
                }
                self.live.splice(at..at + from.len(), [Arc::new(into)]);
            }
            Body::Forget(forget) => {
                Arc::make_mut(&mut self.forgotten).push(Forgotten { t_utc: entry.t_utc, forget });
            }
        }
        self.position = position;
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
