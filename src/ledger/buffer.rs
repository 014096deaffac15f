//! Answers that are recorded and not yet durable, in the order in which they came.

use std::collections::HashMap;
use std::sync::Arc;

use proofmill_base::digest::Digest;
use crate::entry::{Answer, Row};

/// The answers that wait for a segment.
#[derive(Default)]
pub(crate) struct Buffer {
    rows: Vec<Arc<Row>>,
    by_key: HashMap<Digest, Arc<Answer>>,
    bytes: usize,
    /// Rows that left because they are durable.
    left: u64,
}

impl Buffer {
    /// Adds a row unless its key is there already; returns the answer that counts.
    pub fn insert(&mut self, row: Row) -> Arc<Answer> {
        if let Some(first) = self.get(&row.key()) {
            return first;
        }
        let answer = row.answer.clone();
        self.bytes += row.bytes();
        self.by_key.insert(row.key(), answer.clone());
        self.rows.push(Arc::new(row));
        answer
    }

    /// The answer to this request.
    pub fn get(&self, key: &Digest) -> Option<Arc<Answer>> {
        self.by_key.get(key).cloned()
    }

    /// All rows, sorted by key, and the number that [`Self::remove`] takes.
    pub fn sorted(&self) -> (Vec<Arc<Row>>, usize) {
        let mut rows = self.rows.clone();
        rows.sort_unstable_by_key(|row| row.key());
        let count = rows.len();
        (rows, count)
    }

    /// Drops the first `count` rows: they are durable now.
    pub fn remove(&mut self, count: usize) {
        for row in self.rows.drain(..count.min(self.rows.len())) {
            self.by_key.remove(&row.key());
            self.bytes -= row.bytes();
            self.left += 1;
        }
    }

    /// How many rows ever came: a mark for [`Self::is_durable`].
    pub fn mark(&self) -> u64 {
        self.left + self.rows.len() as u64
    }

    /// True when all rows that came before `mark` are durable.
    pub fn is_durable(&self, mark: u64) -> bool {
        self.left >= mark
    }

    /// Bytes that the rows take in memory, approximately.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
