//! Keeping the number of objects small: merging segments, shortening the log, removing what nobody names.

use std::sync::Arc;

use chrono::TimeDelta;

use crate::Ledger;
use crate::error::Result;
use crate::log;
use crate::merge::merge;
use crate::record::{Body, Segment};
use crate::state::State;
use proofmill_store::{Key, ledger_segments_prefix};

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Merges that were committed.
    pub merges: usize,
    /// Segments that became part of others.
    pub segments_merged: usize,
    /// Rows that were written anew.
    pub rows_rewritten: u64,
    /// Bytes that were written anew.
    pub bytes_rewritten: u64,
    /// Objects of the log that a checkpoint replaced.
    pub log_objects_removed: usize,
    /// Segments that the ledger consists of afterwards.
    pub segments: usize,
}

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects that no record names.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Ledger {
    /// True when [`Ledger::compact`] would merge segments that this process knows of.
    pub fn is_fragmented(&self) -> bool {
        self.pick(&self.state()).is_some()
    }

    /// Merges segments until no more is worth it, and shortens the log. Does nothing, at the cost of a
    /// listing, when nothing is to do. Others may look up, record, flush and compact meanwhile. What
    /// was merged stays in the store until [`Ledger::sweep`].
    ///
    /// # Errors
    ///
    /// When the store fails, or a segment is missing or damaged. What was committed stays.
    pub async fn compact(&self) -> Result<Compaction> {
        let merges = self.merges().lock().await;
        let done = self.compact_alone().await?;
        drop(merges);
        Ok(done)
    }

    /// [`Ledger::compact`] when it is worth it and nobody in this process is at it; none otherwise. Cheap
    /// enough to be called after every flush, so that a long run does not pile up segments.
    ///
    /// # Errors
    ///
    /// As [`Ledger::compact`].
    pub async fn compact_if_fragmented(&self) -> Result<Option<Compaction>> {
        let Some(merges) = self.merges().try_lock().ok().filter(|_| self.is_fragmented()) else {
            return Ok(None);
        };
        let done = self.compact_alone().await?;
        drop(merges);
        Ok(Some(done))
    }

    /// Merges and shortens. The caller holds `merges`.
    async fn compact_alone(&self) -> Result<Compaction> {
        let mut done = Compaction::default();
        self.refresh().await?;
        let mut state = self.state();
        while let Some(inputs) = self.pick(&state) {
            let merged = self.merge_segments(&inputs, &mut done).await;
            if merged.as_ref().is_err_and(|error| !error.is_missing()) {
                merged?;
            } else if merged.is_err() {
                self.refresh().await?;
                if self.state().position(&keys(&inputs)).is_some() {
                    merged?;
                }
            }
            state = self.state();
        }
        if log::entries(self.store()).await? >= self.limits().log_entries {
            done.log_objects_removed = log::checkpoint(self.store(), &state).await?;
        }
        done.segments = state.live.len();
        Ok(done)
    }

    /// Removes segments that no record names and that were written more than `older_than` ago: those
    /// that were merged, and those of processes that ended before they could commit. It must exceed the
    /// longest time between writing a segment and committing it: use days.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn sweep(&self, older_than: TimeDelta) -> Result<Swept> {
        let listed = self.store().list(&ledger_segments_prefix()).await?;
        // What is named from now on is either in this state or too new to be removed.
        self.refresh().await?;
        let state = self.state();
        let before = self.store().clock().now() - older_than;
        let mut swept = Swept::default();
        for object in listed {
            if object.modified < before && !state.names(&object.key) {
                self.store().delete(&object.key).await?;
                swept.objects += 1;
                swept.bytes += object.bytes;
            }
        }
        Ok(swept)
    }

    async fn merge_segments(&self, inputs: &[Arc<Segment>], done: &mut Compaction) -> Result<()> {
        let forgotten = Arc::clone(&self.state().forgotten);
        let written = merge(self.store(), inputs, &forgotten, self.limits().blocks).await?;
        let past = forgotten.len() as u64;
        let into = Segment { past, ..written.segment.as_ref().clone() };
        let from = keys(inputs);
        let body = |state: &State| {
            state.position(&from)?;
            Some(Body::Merge { from: from.clone(), into: into.clone() })
        };
        if self.commit_merge(written, body).await? {
            done.merges += 1;
            done.segments_merged += inputs.len();
            done.rows_rewritten += into.rows;
            done.bytes_rewritten += into.bytes;
        } else {
            // Somebody merged the inputs already, and no record names what we made of them.
            self.store().delete(&into.key).await?;
        }
        Ok(())
    }

    /// The segments to merge next.
    fn pick(&self, state: &State) -> Option<Vec<Arc<Segment>>> {
        let sizes: Vec<u64> = state.live.iter().map(|segment| segment.bytes).collect();
        let range = self.limits().tiers.pick(&sizes)?;
        state.live.get(range).map(<[Arc<Segment>]>::to_vec)
    }
}

fn keys(segments: &[Arc<Segment>]) -> Vec<Key> {
    segments.iter().map(|segment| segment.key.clone()).collect()
}
