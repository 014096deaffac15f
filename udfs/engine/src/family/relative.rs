//! T5's relative positions: distances fall into buckets, small ones each into its own, larger ones by
//! their logarithm, and each bucket has a number per head.

use crate::backend::{Backend, RelativeBias};
use crate::checkpoint::{LoadError, Stored};

/// How distances fall into buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets {
    /// How many there are.
    pub count: usize,
    /// The distance from which on all share the last.
    pub max_distance: usize,
    /// Whether half of them is for what comes later in the text; else that is all in the first.
    pub both_ways: bool,
}

impl Buckets {
    /// Buckets on each side.
    fn side(self) -> usize {
        if self.both_ways { self.count / 2 } else { self.count }
    }

    /// The bucket of `key - query`.
    fn of(self, distance: i64) -> usize {
        let side = self.side();
        let later = if self.both_ways && distance > 0 { side } else { 0 };
        let far = if self.both_ways { distance.unsigned_abs() } else { (-distance).max(0) as u64 };
        later + self.on_side(far as usize)
    }

    /// In 32-bit floats, as torch does it: at powers of two the last bit decides.
    fn on_side(self, far: usize) -> usize {
        let side = self.side();
        let exact = side / 2;
        if far < exact {
            return far;
        }
        let growth = (self.max_distance as f64 / exact as f64).ln() as f32;
        let log = (far as f32 / exact as f32).ln() / growth * (side - exact) as f32;
        (exact + log as usize).min(side - 1)
    }

    /// The distance from which on all share a bucket.
    fn reach(self) -> usize {
        let last = self.side() - 1;
        (1..=self.max_distance).find(|&far| self.on_side(far) == last).unwrap_or(self.max_distance)
    }

    /// Numbers by head and distance, out of `[buckets, heads]`.
    pub fn load<B: Backend>(
        self,
        backend: &B,
        embedding: &Stored,
    ) -> Result<RelativeBias<B>, LoadError> {
        let (reach, weights) = self.expand(embedding);
        Ok(RelativeBias { weights: backend.vector(&weights)?, reach })
    }

    fn expand(self, embedding: &Stored) -> (usize, Vec<f32>) {
        let reach = self.reach();
        let heads = embedding.width();
        let values = embedding.values();
        let span = -(reach as i64)..=reach as i64;
        let buckets: Vec<usize> = span.map(|distance| self.of(distance)).collect();
        let weights = (0..heads)
            .flat_map(|head| buckets.iter().map(move |bucket| (head, bucket)))
            .map(|(head, bucket)| values[bucket * heads + head])
            .collect();
        (reach, weights)
    }
}
