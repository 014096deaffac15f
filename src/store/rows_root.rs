//! The root of a table: that of the hash tree of RFC 6962 whose leaves are the canonical bytes of its rows, in order.
//!
//! Rows are hashed late, so that a table that turns out to be too long costs nothing.

use arrow::array::RecordBatch;

use crate::canonical_row::for_each_row;
use proofmill_base::digest::Digest;
use proofmill_base::merkle::{Tree, leaf_hash};

/// Rows of a table up to which its record has a root.
pub const ROOTED_ROWS_MAX: u64 = 1_000_000;
/// Bytes of rows that wait for the end of their table before they are hashed.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The rows of a table, or of a piece of it, on the way to its root.
#[derive(Debug, Default)]
pub struct RowLeaves {
    leaves: Vec<Digest>,
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
    rows: u64,
    /// Whether there are too many rows, or some that have no canonical bytes.
    is_given_up: bool,
}

impl RowLeaves {
    /// Takes the next rows of a piece, one of `pieces` that are written at the same time.
    pub fn push(&mut self, batch: &RecordBatch, pieces: usize) {
        self.rows += batch.num_rows() as u64;
        if self.is_given_up || self.rows > ROOTED_ROWS_MAX {
            self.give_up();
            return;
        }
        self.waiting_bytes += batch.get_array_memory_size();
        self.waiting.push(batch.clone());
        if self.waiting_bytes > WAITING_BYTES_MAX / pieces.max(1) {
            self.hash();
        }
    }

    /// Appends the rows of the next piece.
    pub fn append(&mut self, next: Self) {
        self.rows += next.rows;
        if self.is_given_up || next.is_given_up || self.rows > ROOTED_ROWS_MAX {
            self.give_up();
            return;
        }
        if !next.leaves.is_empty() {
            self.hash();
            self.leaves.extend(next.leaves);
        }
        self.waiting.extend(next.waiting);
    }

    /// The hash of each row; `None` for too many rows.
    pub fn finish(mut self) -> Option<Vec<Digest>> {
        self.hash();
        (!self.is_given_up).then_some(self.leaves)
    }

    /// The root; `None` for too many rows.
    pub fn root(self) -> Option<Digest> {
        Some(self.finish()?.into_iter().collect::<Tree>().root())
    }

    fn hash(&mut self) {
        self.waiting_bytes = 0;
        for batch in std::mem::take(&mut self.waiting) {
            let leaves = &mut self.leaves;
            if for_each_row(&batch, |row| leaves.push(leaf_hash(row))).is_none() {
                self.give_up();
                return;
            }
        }
    }

    fn give_up(&mut self) {
        *self = Self { rows: self.rows, is_given_up: true, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn rows(from: i64, to: i64) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
        let column = Int64Array::from_iter_values(from..to);
        RecordBatch::try_new(schema, vec![Arc::new(column)]).unwrap()
    }

    fn root(pieces: &[&[(i64, i64)]]) -> Option<Digest> {
        let mut all = RowLeaves::default();
        for piece in pieces {
            let mut leaves = RowLeaves::default();
            piece.iter().for_each(|(from, to)| leaves.push(&rows(*from, *to), pieces.len()));
            all.append(leaves);
        }
        all.root()
    }

    #[test]
    fn a_root_does_not_depend_on_how_a_table_is_cut() {
        let whole = root(&[&[(0, 1000)]]);
        assert!(whole.is_some());
        assert_eq!(root(&[&[(0, 1), (1, 999), (999, 1000)]]), whole);
        assert_eq!(root(&[&[(0, 400)], &[], &[(400, 700), (700, 1000)]]), whole);
        assert_ne!(root(&[&[(0, 999)]]), whole);
        assert_ne!(root(&[&[(500, 1000)], &[(0, 500)]]), whole, "order counts");
        assert_eq!(root(&[]), Some(Digest::of(b"")));
    }

    #[test]
    fn a_table_of_too_many_rows_has_none() {
        let most = ROOTED_ROWS_MAX as i64;
        assert!(root(&[&[(0, most / 2)], &[(0, most / 2)]]).is_some());
        assert_eq!(root(&[&[(0, most / 2)], &[(0, most / 2 + 1)]]), None);
        assert_eq!(root(&[&[(0, most), (0, 1)], &[(0, 1)]]), None);
    }
}
