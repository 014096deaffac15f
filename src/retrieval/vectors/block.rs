//! Many vectors, laid out so that the kernel reads them in one sweep.

use crate::vectors::flaw::{VectorFlaw, check};
use crate::vectors::kernel::{LANES, Panel};

/// Vectors of one dimension in panels of `LANES`, as far as the capacity goes.
pub struct Block {
    dimension: usize,
    capacity: usize,
    len: usize,
    panels: Vec<[f32; LANES]>,
}

impl Block {
    /// A block for as many vectors as fit into `bytes`, and one panel of them at least.
    pub fn new(dimension: usize, bytes: usize) -> Self {
        let panel = (dimension.max(1) * LANES).saturating_mul(size_of::<f32>());
        let capacity = (bytes / panel).max(1) * LANES;
        Self { dimension, capacity, len: 0, panels: Vec::new() }
    }

    /// Appends a vector.
    pub fn push(&mut self, vector: &[f32]) -> Result<(), VectorFlaw> {
        check(vector, self.dimension)?;
        let lane = self.len % LANES;
        if lane == 0 {
            self.panels.resize(self.panels.len() + self.dimension, [0.0; LANES]);
        }
        let first = self.panels.len() - self.dimension;
        for (column, &value) in self.panels[first..].iter_mut().zip(vector) {
            column[lane] = value;
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
        self.panels.clear();
    }

    /// Dimensions of its vectors.
    pub(super) fn dimension(&self) -> usize {
        self.dimension
    }

    /// The panels with the number of vectors in each.
    pub(super) fn panels(&self) -> impl Iterator<Item = (&Panel, usize)> {
        let panels = self.panels.chunks_exact(self.dimension.max(1));
        panels.enumerate().map(|(i, panel)| (panel, (self.len - i * LANES).min(LANES)))
    }
}
