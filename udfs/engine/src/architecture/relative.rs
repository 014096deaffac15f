//! T5's relative positions: distances fall into buckets, small ones each into its own, larger ones by
//! their logarithm, and each bucket has a number per head.

use crate::backend::{LoadWeights, RelativeBias};
use crate::checkpoint::{LoadError, StoredTensor};

/// How distances between tokens fall into buckets; inference and training read the same settings so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// All of them; even, at least 4.
    pub count: usize,
    /// The distance from which on all share the last.
    pub max_distance: usize,
    /// Whether half of them is for keys after the query (encoders); else those are all in the first.
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

    /// The buckets of the distances from `1 - length` to `length - 1`, in this order.
    pub fn span(self, length: usize) -> Vec<usize> {
        let length = length as i64;
        (1 - length..length).map(|distance| self.of(distance)).collect()
    }

    /// Numbers by head and distance, out of `[buckets, heads]`.
    pub(super) fn load<B: LoadWeights>(
        self,
        backend: &B,
        embedding: &StoredTensor,
    ) -> Result<RelativeBias<B>, LoadError> {
        let (reach, weights) = self.expand(embedding);
        Ok(RelativeBias { weights: backend.vector(&weights)?, reach })
    }

    fn expand(self, embedding: &StoredTensor) -> (usize, Vec<f32>) {
        let reach = self.reach();
        let heads = embedding.width();
        let values = embedding.values();
        let buckets = self.span(reach + 1);
        let weights = (0..heads)
            .flat_map(|head| buckets.iter().map(move |bucket| (head, bucket)))
            .map(|(head, bucket)| values[bucket * heads + head])
            .collect();
        (reach, weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distances at which buckets begin, by transformers 5.17, with 32 buckets up to 128.
    const BOTH_WAYS: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];
    const BACK_ONLY: [usize; 32] = [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31, 35, 40, 46,
        52, 59, 67, 77, 87, 99, 113,
    ];

    fn begins(buckets: Buckets) -> Vec<usize> {
        let of = |far: usize| buckets.of(-(far as i64));
        (0..=128).filter(|&far| far == 0 || of(far) != of(far - 1)).collect()
    }

    #[test]
    fn buckets_are_those_of_transformers() {
        let back = Buckets { count: 32, max_distance: 128, both_ways: false };
        let both = Buckets { both_ways: true, ..back };
        assert_eq!(begins(both), BOTH_WAYS);
        assert_eq!(begins(back), BACK_ONLY);
        assert_eq!((both.reach(), back.reach()), (91, 113));
        assert!((1..200).all(|far| both.of(far) == 16 + both.of(-far) && back.of(far) == 0));
        assert_eq!(both.span(3), [2, 1, 0, 17, 18]);
        assert_eq!(back.span(3), [2, 1, 0, 0, 0]);
    }

    #[test]
    fn beyond_its_reach_nothing_changes() {
        for count in [4, 8, 32, 64] {
            for max_distance in [count, 20 + count, 1000] {
                for both_ways in [false, true] {
                    let buckets = Buckets { count, max_distance, both_ways };
                    let reach = buckets.reach() as i64;
                    for far in -2000..=2000_i64 {
                        assert_eq!(buckets.of(far), buckets.of(far.clamp(-reach, reach)));
                        assert!(buckets.of(far) < count);
                    }
                }
            }
        }
    }
}
