//! From logits to tokens.

use super::gumbel::{SamplerScratch, Truncation, sample};
use super::math::exp;
use super::top_k::{RankedToken, find, top_k};
use crate::backend::{
    RowSampling, SamplerOutput, SamplingMetadata, SamplingMethod, Token, is_allowed,
};
use proofmill_gemm::reduce::{self, largest, padded};
use proofmill_gemm::{LANES, Simd, SimdKernel};

/// Samples some rows of logits.
pub(super) struct SampleRows<'a> {
    /// `[rows, vocabulary]`; overwritten.
    pub(super) logits: &'a mut [f32],
    pub(super) vocabulary: usize,
    pub(super) rows: &'a [RowSampling],
    pub(super) all: &'a SamplingMetadata,
    pub(super) scratch: &'a mut SamplerScratch,
    pub(super) out: &'a mut SamplerOutput,
}

impl SimdKernel for SampleRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (row, logits) in self.rows.iter().zip(self.logits.chunks_exact_mut(self.vocabulary)) {
            let largest = largest(s, logits);
            let norm = log_sum_exp(s, logits, largest);
            if norm.is_finite() {
                let logits = RowLogits { logits, largest, norm };
                sample_row(s, row, self.all, logits, self.scratch, self.out);
            } else {
                self.out.tokens.push(Token { id: 0, logprob: f32::NAN });
            }
            self.out.end();
        }
    }
}

/// The logits of a row.
struct RowLogits<'a> {
    logits: &'a mut [f32],
    largest: f32,
    norm: f64,
}

#[inline(always)]
fn sample_row<S: Simd>(
    s: S,
    row: &RowSampling,
    all: &SamplingMetadata,
    logits: RowLogits<'_>,
    scratch: &mut SamplerScratch,
    out: &mut SamplerOutput,
) {
    let RowLogits { logits, mut largest, norm } = logits;
    let token = |id: u32, logit: f32| Token { id, logprob: (f64::from(logit) - norm) as f32 };
    let given = match row.method {
        SamplingMethod::Score { token } => logits[token as usize],
        SamplingMethod::Greedy
        | SamplingMethod::Sample { .. }
        | SamplingMethod::TopK { .. }
        | SamplingMethod::Choices { .. } => 0.0,
    };
    let banned = list(all, row.first_banned, row.banned);
    for &id in banned {
        logits[id as usize] = f32::NEG_INFINITY;
    }
    let mask = all.mask(row);
    if let Some(mask) = mask {
        for (id, logit) in (0..).zip(logits.iter_mut()) {
            *logit = if is_allowed(mask, id) { *logit } else { f32::NEG_INFINITY };
        }
    }
    if !banned.is_empty() || mask.is_some() {
        largest = reduce::largest(s, logits);
    }
    let best = RankedToken { logit: largest, id: find(logits, largest) };
    if best.logit == f32::NEG_INFINITY {
        // Everything is banned.
        out.tokens.push(Token { id: 0, logprob: f32::NAN });
        return;
    }
    match row.method {
        SamplingMethod::Greedy => out.tokens.push(token(best.id, best.logit)),
        SamplingMethod::Score { .. } => out.tokens.push(token(best.id, given)),
        SamplingMethod::TopK { count } => {
            top_k(s, logits, count as usize, &mut scratch.ranked);
            out.tokens.extend(scratch.ranked.iter().map(|one| token(one.id, one.logit)));
        }
        SamplingMethod::Choices { first, tokens, count } => {
            let some = list(all, first, tokens).iter().filter(|id| {
                !banned.contains(id) && mask.is_none_or(|mask| is_allowed(mask, **id))
            });
            scratch.ranked.clear();
            scratch.ranked.extend(some.map(|&id| RankedToken { logit: logits[id as usize], id }));
            scratch.ranked.sort_unstable();
            scratch.ranked.dedup();
            let best = scratch.ranked.iter().take(count as usize);
            out.tokens.extend(best.map(|one| token(one.id, one.logit)));
        }
        SamplingMethod::Sample { temperature, top_k, top_p, rng } => {
            let truncation = Truncation { temperature, top_k: top_k as usize, top_p };
            let id = sample(s, truncation, rng, logits, best, scratch);
            out.tokens.push(token(id, logits[id as usize]));
        }
    }
}

/// Part of the lists of tokens that rows point to.
fn list(all: &SamplingMetadata, first: u32, count: u32) -> &[u32] {
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
