//! Many vectors, packed so that a product reads them in one sweep.

use proofmill_gemm::{OutOfMemory, Panels};

use crate::vectors::flaw::{VectorFlaw, check};

/// Vectors for which there is memory, or a multiple of them.
const VECTORS: usize = 16;

/// Vectors of one dimension, as far as the capacity goes.
pub struct Block {
    dimension: usize,
    capacity: usize,
    len: usize,
    panels: Panels,
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
        let vectors = (numbers * VECTORS).saturating_mul(size_of::<f32>());
        let capacity = (bytes / vectors).max(1) * VECTORS;
        let panels = Panels::new(capacity, numbers)?;
        Ok(Self { dimension, capacity, len: 0, panels })
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
        self.panels.set(self.len, vector);
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
    }

    /// Dimensions of its vectors.
    pub(super) fn dimension(&self) -> usize {
        self.dimension
    }

    /// Its vectors, and after the last of them what earlier ones left.
    pub(super) fn panels(&self) -> &Panels {
        &self.panels
    }
}
