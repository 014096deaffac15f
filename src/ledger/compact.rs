//! Keeping the number of objects small: merging segments, shortening the log, removing what was merged.

use std::sync::Arc;

use crate::Ledger;
use crate::error::Result;
use crate::log;
use crate::merge::merge;
use crate::record::{Body, Segment};
use crate::state::State;
use proofmill_store::Key;

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
    /// Merged segments that were removed.
    pub segments_removed: usize,
    /// Segments that the ledger consists of afterwards.
    pub segments: usize,
}

impl Ledger {
    /// True when [`Ledger::compact`] would merge segments that this process knows of.
    pub fn is_fragmented(&self) -> bool {
        self.pick(&self.state()).is_some()
    }

    /// Merges segments until no more is worth it, shortens the log, and removes what was merged
    /// [`Limits::margin`](crate::Limits) entries ago. Does nothing, at the cost of a listing, when
    /// nothing is to do. Others may look up, record, flush and compact meanwhile.
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

    /// [`Ledger::compact`] when it is worth it and not under way in this process; none otherwise.
    /// Cheap enough to be called after every flush, so that a long run does not pile up segments.
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
            let removed = log::checkpoint(self.store(), &state, self.limits().margin).await?;
            done.log_objects_removed = removed.log_objects;
            done.segments_removed = removed.segments;
        }
        done.segments = state.live.len();
        Ok(done)
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
