//! The top-k tokens of a row.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use proofmill_gemm::reduce::largest;
use proofmill_gemm::{LANES, Simd};

/// Numbers that are looked at together: only if one is large enough, each for itself.
pub(super) const GROUP: usize = 4 * LANES;

/// A token in order of its logit: the likelier is smaller, and of equals the one with the smaller id.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedToken {
    pub(super) logit: f32,
    pub(super) id: u32,
}

impl Ord for RankedToken {
    fn cmp(&self, other: &Self) -> Ordering {
        // Zeros of either sign are equal, and there is no NaN.
        let logits = other.logit.partial_cmp(&self.logit).unwrap_or(Ordering::Equal);
        logits.then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for RankedToken {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedToken {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RankedToken {}

/// The first token with this logit; 0 if there is none.
#[inline(always)]
pub(super) fn find(logits: &[f32], logit: f32) -> u32 {
    let found = logits.chunks(GROUP).enumerate().find_map(|(index, group)| {
        // All at once, because a search that may stop anywhere is not vectorised.
        let any = group.iter().fold(false, |any, &other| any | (other == logit));
        let place = if any { group.iter().position(|&other| other == logit) } else { None };
        place.map(|place| index * GROUP + place)
    });
    found.unwrap_or(0) as u32
}

/// The likeliest `count` (all if they are fewer) but those of `-inf`, best first.
#[inline(always)]
pub(super) fn top_k<S: Simd>(s: S, logits: &[f32], count: usize, out: &mut Vec<RankedToken>) {
    out.clear();
    let mut heap = BinaryHeap::from(std::mem::take(out));
    let mut threshold = f32::NEG_INFINITY;
    for (index, group) in logits.chunks(GROUP).enumerate() {
        // Of equals the first stays.
        if largest(s, group) <= threshold {
            continue;
        }
        for (place, &logit) in group.iter().enumerate() {
            if logit > threshold {
                let ranked = RankedToken { logit, id: (index * GROUP + place) as u32 };
                if heap.len() < count {
                    heap.push(ranked);
                } else if let Some(mut worst) = heap.peek_mut() {
                    *worst = ranked;
                }
                if heap.len() == count {
                    threshold = heap.peek().map_or(threshold, |worst| worst.logit);
                }
            }
        }
    }
    *out = heap.into_sorted_vec();
}
