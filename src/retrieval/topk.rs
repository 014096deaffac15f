//! The k best hits seen so far, offered in ascending order of their ordinals.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An entry and how well it answers the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The entry, by insertion order.
    pub ordinal: u32,
    /// Its score: above 0 for words, any finite number for vectors.
    pub score: f64,
}

/// Best first: higher score, then lower ordinal.
#[derive(PartialEq)]
struct Rank(Hit);

impl Eq for Rank {}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = other.0.score.total_cmp(&self.0.score);
        by_score.then(self.0.ordinal.cmp(&other.0.ordinal))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A heap of at most `k` hits with the worst on top.
pub(super) struct TopK {
    k: usize,
    heap: BinaryHeap<Rank>,
    floor: f64,
}

impl TopK {
    /// For `k > 0` hits with scores above `floor`.
    pub fn new(k: usize, floor: f64) -> Self {
        Self { k, heap: BinaryHeap::with_capacity(k), floor }
    }

    /// Memory for `k` hits.
    pub fn bytes(k: usize) -> usize {
        size_of::<Self>() + k * size_of::<Rank>()
    }

    /// Only a score above this one can enter: at first the given one, later that of the worst hit.
    /// Equal is not enough, because later offers have higher ordinals.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Takes `hit` if it is good enough.
    pub fn offer(&mut self, hit: Hit) {
        if hit.score <= self.floor {
            return;
        }
        if self.heap.len() == self.k {
            self.heap.pop();
        }
        self.heap.push(Rank(hit));
        if self.heap.len() == self.k {
            self.floor = self.heap.peek().map_or(self.floor, |worst| worst.0.score);
        }
    }

    /// The hits, best first.
    pub fn into_hits(self) -> Vec<Hit> {
        self.heap.into_sorted_vec().into_iter().map(|Rank(hit)| hit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(k: usize, scores: &[f64]) -> Vec<u32> {
        let mut top = TopK::new(k, 0.0);
        for (ordinal, &score) in (0..).zip(scores) {
            top.offer(Hit { ordinal, score });
        }
        top.into_hits().into_iter().map(|hit| hit.ordinal).collect()
    }

    #[test]
    fn earlier_entries_win_ties_also_at_the_boundary() {
        assert_eq!(best(3, &[1.0, 2.0, 1.0, 2.0, 1.0]), [1, 3, 0]);
        assert_eq!(best(2, &[1.0, 1.0, 1.0, 3.0, 1.0]), [3, 0]);
    }

    #[test]
    fn scores_of_zero_and_below_are_dropped() {
        assert_eq!(best(3, &[0.0, -1.0, 0.5, -0.0]), [2]);
    }
}
