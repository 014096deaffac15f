//! Many vectors, packed so that a product reads them in one sweep.

use std::ops::Range;

use proofmill_gemm::{Buffer, INT8_INPUTS_MAX, Int8Panels, OutOfMemory};

use crate::vectors::bound::Extent;
use crate::vectors::flaw::{VectorFlaw, check};

/// Vectors that are looked at together, and for which there is memory, or a multiple of them.
pub(super) const VECTORS: usize = 16;

/// Vectors of one dimension, as far as the capacity goes: as they are, and rounded to bytes.
pub struct Block {
    dimension: usize,
    capacity: usize,
    len: usize,
    /// `[capacity, dimension]`
    rows: Buffer<f32>,
    bytes: Int8Panels,
    /// Of each 16 vectors.
    extents: Vec<Extent>,
}

impl Block {
    /// A block for as many vectors as fit into `bytes`, and 16 of them at least. Memory is taken from the system as
    /// vectors come.
    ///
    /// # Errors
    ///
    /// The system does not give so much.
    pub fn new(dimension: usize, bytes: usize) -> Result<Self, OutOfMemory> {
        let numbers = dimension.max(1);
        let vectors = (numbers * VECTORS).saturating_mul(size_of::<f32>() + size_of::<i8>());
        let capacity = (bytes / vectors).max(1) * VECTORS;
        let rows = Buffer::new(capacity.saturating_mul(numbers))?;
        // `push` refuses vectors of more numbers than bytes can have.
        let bytes = Int8Panels::new(capacity, numbers.min(INT8_INPUTS_MAX))?;
        Ok(Self { dimension, capacity, len: 0, rows, bytes, extents: Vec::new() })
    }

    /// Appends a vector.
    ///
    /// # Errors
    ///
    /// It is no vector of the block's dimension.
    ///
    /// # Panics
    ///
    /// If the block is full.
    pub fn push(&mut self, vector: &[f32]) -> Result<(), VectorFlaw> {
        check(vector, self.dimension)?;
        self.rows[self.len * self.dimension..][..self.dimension].copy_from_slice(vector);
        self.bytes.set(self.len, vector);
        let extent = Extent::of(vector);
        match self.extents.last_mut() {
            Some(last) if !self.len.is_multiple_of(VECTORS) => *last = last.or(extent),
            _ => self.extents.push(extent),
        }
        self.len += 1;
        Ok(())
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if the next vector belongs into another block.
    pub fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    /// Empties the block; its memory stays.
    pub fn clear(&mut self) {
        self.len = 0;
        self.extents.clear();
    }

    /// Dimensions of its vectors.
    pub(super) fn dimension(&self) -> usize {
        self.dimension
    }

    /// One of its vectors.
    pub(super) fn row(&self, place: usize) -> &[f32] {
        &self.rows[place * self.dimension..][..self.dimension]
    }

    /// Its vectors rounded to bytes, and after the last of them what earlier ones left.
    pub(super) fn bytes(&self) -> &Int8Panels {
        &self.bytes
    }

    /// The extents of the vectors `places`, of which the first is a multiple of 16: one for each 16.
    pub(super) fn extents(&self, places: Range<usize>) -> &[Extent] {
        &self.extents[places.start / VECTORS..places.end.div_ceil(VECTORS)]
    }
}
