//! From logits to tokens.

use super::likely::{Likely, find, likeliest};
use super::math::exp;
use super::reduce::{self, largest, padded};
use super::sample::{Cut, sample};
use super::simd::{Kernel, LANES, Simd};
use crate::backend::{How, Pick, Picked, Picks, Token};

/// Memory that picks use.
#[derive(Debug, Default)]
pub(super) struct PickScratch {
    pub(super) likely: Vec<Likely>,
    pub(super) weights: Vec<f32>,
}

/// The picks of some rows of logits.
pub(super) struct Picking<'a> {
    /// `[picks, vocabulary]`; overwritten.
    pub(super) logits: &'a mut [f32],
    pub(super) vocabulary: usize,
    pub(super) picks: &'a [Pick],
    pub(super) all: &'a Picks,
    pub(super) scratch: &'a mut PickScratch,
    pub(super) out: &'a mut Picked,
}

impl Kernel for Picking<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (pick, logits) in self.picks.iter().zip(self.logits.chunks_exact_mut(self.vocabulary)) {
            let largest = largest(s, logits);
            let norm = log_sum_exp(s, logits, largest);
            if norm.is_finite() {
                let row = Row { logits, largest, norm };
                pick_one(s, pick, self.all, row, self.scratch, self.out);
            } else {
                self.out.tokens.push(Token { id: 0, logprob: f32::NAN });
            }
            self.out.end();
        }
    }
}

/// The logits of a row.
struct Row<'a> {
    logits: &'a mut [f32],
    largest: f32,
    norm: f64,
}

#[inline(always)]
fn pick_one<S: Simd>(
    s: S,
    pick: &Pick,
    all: &Picks,
    row: Row<'_>,
    scratch: &mut PickScratch,
    out: &mut Picked,
) {
    let Row { logits, mut largest, norm } = row;
    let token = |id: u32, logit: f32| Token { id, logprob: (f64::from(logit) - norm) as f32 };
    let given = match pick.how {
        How::Given { token } => logits[token as usize],
        How::Greedy | How::Sample { .. } | How::Top { .. } | How::Among { .. } => 0.0,
    };
    let banned = list(all, pick.first_banned, pick.banned);
    for &id in banned {
        logits[id as usize] = f32::NEG_INFINITY;
    }
    if !banned.is_empty() {
        largest = reduce::largest(s, logits);
    }
    let best = Likely { logit: largest, id: find(logits, largest) };
    if best.logit == f32::NEG_INFINITY {
        // Everything is banned.
        out.tokens.push(Token { id: 0, logprob: f32::NAN });
        return;
    }
    match pick.how {
        How::Greedy => out.tokens.push(token(best.id, best.logit)),
        How::Given { .. } => out.tokens.push(token(best.id, given)),
        How::Top { count } => {
            likeliest(s, logits, count as usize, &mut scratch.likely);
            out.tokens.extend(scratch.likely.iter().map(|likely| token(likely.id, likely.logit)));
        }
        How::Among { first, tokens, count } => {
            let some = list(all, first, tokens).iter().filter(|id| !banned.contains(id));
            scratch.likely.clear();
            scratch.likely.extend(some.map(|&id| Likely { logit: logits[id as usize], id }));
            scratch.likely.sort_unstable();
            scratch.likely.dedup();
            let best = scratch.likely.iter().take(count as usize);
            out.tokens.extend(best.map(|likely| token(likely.id, likely.logit)));
        }
        How::Sample { temperature, top_k, top_p, noise } => {
            let cut = Cut { temperature, top_k: top_k as usize, top_p };
            let id = sample(s, cut, noise, logits, best, scratch);
            out.tokens.push(token(id, logits[id as usize]));
        }
    }
}

/// Part of the lists that picks point to.
fn list(all: &Picks, first: u32, count: u32) -> &[u32] {
    &all.tokens[first as usize..][..count as usize]
}

/// `ln Σ e^x` to 1e-7 or so, of numbers of which the largest is `largest`; NaN or infinite if the sum is no positive number.
#[inline(always)]
fn log_sum_exp<S: Simd>(s: S, x: &[f32], largest: f32) -> f64 {
    let shift = s.splat(largest);
    let mut sum = s.splat(0.0);
    // What rounding took from the sums (Kahan).
    let mut lost = s.splat(0.0);
    let (groups, rest) = x.as_chunks::<{ 4 * LANES }>();
    for group in groups {
        let mut terms = [s.splat(0.0); 4];
        for (term, x) in terms.iter_mut().zip(group.as_chunks::<LANES>().0) {
            *term = exp(s, s.sub(s.load(x), shift));
        }
        let terms = s.add(s.add(terms[0], terms[1]), s.add(terms[2], terms[3]));
        (sum, lost) = add_exactly(s, sum, lost, terms);
    }
    let (vectors, tail) = rest.as_chunks::<LANES>();
    let last = padded(tail, f32::NEG_INFINITY);
    for x in vectors.iter().chain([&last]) {
        (sum, lost) = add_exactly(s, sum, lost, exp(s, s.sub(s.load(x), shift)));
    }
    let mut lanes = [[0.0; LANES]; 2];
    s.store(sum, &mut lanes[0]);
    s.store(lost, &mut lanes[1]);
    let sums = lanes[0].iter().zip(&lanes[1]);
    let total: f64 = sums.map(|(&sum, &lost)| f64::from(sum) - f64::from(lost)).sum();
    f64::from(largest) + total.ln()
}

#[inline(always)]
fn add_exactly<S: Simd>(s: S, sum: S::F, lost: S::F, term: S::F) -> (S::F, S::F) {
    let term = s.sub(term, lost);
    let next = s.add(sum, term);
    (next, s.sub(s.sub(next, sum), term))
}
