//! What a read hands on: chunks of rows and error rows, and what it came to.

use std::ops::ControlFlow;

use arrow::array::RecordBatch;

use crate::error_rows::ErrorRow;
use crate::ignored::Ignored;

/// What has been read since the last chunk.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Rows, if there are any.
    pub batch: Option<RecordBatch>,
    /// Records that did not become rows.
    pub errors: Vec<ErrorRow>,
    /// Bytes of the file.
    pub bytes_read: u64,
}

/// What a read came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records that became rows.
    pub rows: u64,
    /// Records that became error rows.
    pub errors: u64,
    /// Lines that were passed over because they are blank.
    pub blank_lines: u64,
    /// Fields that the sample did not show and that have no column.
    pub ignored: Ignored,
    /// Whether the sink stopped the read.
    pub stopped: bool,
}

impl Summary {
    /// Adds another part of the same read.
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.errors += other.errors;
        self.blank_lines += other.blank_lines;
        self.stopped |= other.stopped;
        other.ignored.iter().for_each(|(name, times)| self.ignored.add_times(name, times));
    }
}

/// Takes chunks, and says whether to go on.
pub type Sink<'s> = &'s mut dyn FnMut(Chunk) -> ControlFlow<()>;
