//! Exact samples by the Gumbel-max trick, after temperature, top-k and top-p as transformers applies them.

use super::math::exp;
use super::top_k::{GROUP, RankedToken, top_k};
use crate::rng::CounterRng;
use proofmill_gemm::reduce::{padded, sum};
use proofmill_gemm::{LANES, Simd};

/// Buffers of the sampler.
#[derive(Debug, Default)]
pub(super) struct SamplerScratch {
    pub(super) ranked: Vec<RankedToken>,
    pub(super) weights: Vec<f32>,
}

/// Temperature and the truncation of a distribution.
#[derive(Clone, Copy)]
pub(super) struct Truncation {
    pub(super) temperature: f32,
    /// 0 is all.
    pub(super) top_k: usize,
    /// 1 is all.
    pub(super) top_p: f32,
}

/// What a bound that is computed in f32 is multiplied by, to be on the safe side: exponents of up
/// to 87 with an error of two in their last place are wrong by 2e-5.
const GENEROUS: f64 = 1.001;

/// Draws a token. `best` is the likeliest; the logits of tokens that are cut become `-inf`.
#[inline(always)]
pub(super) fn sample<S: Simd>(
    s: S,
    truncation: Truncation,
    rng: CounterRng,
    logits: &mut [f32],
    best: RankedToken,
    scratch: &mut SamplerScratch,
) -> u32 {
    if truncation.top_k != 0 && truncation.top_k < logits.len() {
        keep_top_k(s, truncation.top_k, logits, &mut scratch.ranked);
    }
    let weights = &mut scratch.weights;
    weights.clear();
    weights.resize(logits.len(), 0.0);
    temper(s, truncation.temperature, logits, best.logit, weights);
    if truncation.top_p < 1.0 {
        let total = f64::from(sum(s, weights));
        keep_top_p(f64::from(truncation.top_p) * total, logits, weights, &mut scratch.ranked);
    }
    draw(truncation.temperature, rng, logits, best, weights)
}

/// Keeps all tokens that are as likely as the `count`-th.
#[inline(always)]
fn keep_top_k<S: Simd>(s: S, count: usize, logits: &mut [f32], ranked: &mut Vec<RankedToken>) {
    top_k(s, logits, count, ranked);
    let Some(last) = ranked.last().filter(|_| ranked.len() == count) else { return };
    let threshold = last.logit;
    for logit in logits {
        *logit = if *logit < threshold { f32::NEG_INFINITY } else { *logit };
    }
}

/// `weights = e^((logit - best) / temperature)`.
#[inline(always)]
fn temper<S: Simd>(s: S, temperature: f32, logits: &[f32], best: f32, weights: &mut [f32]) {
    let (best, temperature) = (s.splat(best), s.splat(temperature));
    let (vectors, tail) = logits.as_chunks::<LANES>();
    let (places, last) = weights.as_chunks_mut::<LANES>();
    for (x, place) in vectors.iter().zip(places) {
        s.store(exp(s, s.div(s.sub(s.load(x), best), temperature)), place);
    }
    let x = s.load(&padded(tail, f32::NEG_INFINITY));
    let mut all = [0.0; LANES];
    s.store(exp(s, s.div(s.sub(x, best), temperature)), &mut all);
    last.copy_from_slice(&all[..last.len()]);
}

/// Keeps the likeliest tokens whose weights together reach `wanted`, at least one; of equals those
/// with smaller ids.
fn keep_top_p(wanted: f64, logits: &mut [f32], weights: &mut [f32], ranked: &mut Vec<RankedToken>) {
    // Most often few tokens have the share: look at those that have 1/64 of the best one's weight,
    // then 1/4096, and so on.
    let mut least = 1.0 / 64.0;
    let last = loop {
        ranked.clear();
        let all = weights.iter().zip(&*logits).zip(0..);
        let some = all.filter(|((weight, _), _)| **weight >= least);
        ranked.extend(some.map(|((_, &logit), id)| RankedToken { logit, id }));
        match last_of_share(wanted, weights, ranked) {
            Some(last) => break last,
            None if least == 0.0 => return,
            // Below it weights are 0.
            None => least = if least < 1e-36 { 0.0 } else { least / 64.0 },
        }
    };
    for ((id, logit), weight) in (0..).zip(logits).zip(weights) {
        if (RankedToken { logit: *logit, id }) > last {
            *logit = f32::NEG_INFINITY;
            *weight = 0.0;
        }
    }
}

/// The last of the likeliest tokens whose weights together reach `wanted`, if all do.
fn last_of_share(wanted: f64, weights: &[f32], ranked: &mut [RankedToken]) -> Option<RankedToken> {
    const SORTED: usize = 64;
    let weight = |likely: &RankedToken| f64::from(weights[likely.id as usize]);
    // It is one of `rest`; those before have `sum`.
    let (mut rest, mut sum) = (ranked, 0.0);
    while rest.len() > SORTED {
        let middle = rest.len() / 2;
        rest.select_nth_unstable(middle);
        let (better, worse) = rest.split_at_mut(middle);
        let share: f64 = better.iter().map(weight).sum();
        if sum + share >= wanted {
            rest = better;
        } else {
            sum += share;
            rest = worse;
        }
    }
    rest.sort_unstable();
    rest.iter().copied().find(|likely| {
        sum += weight(likely);
        sum >= wanted
    })
}

/// The token with the largest sum of logit / temperature and noise; of equals the smallest.
///
/// The noise of a token is below `-ln(1 - u)`, as `-ln u > 1 - u`. So it can only win against a sum
/// `leader` if `1 - u < e^(logit / temperature - leader)`, which is its weight times a factor:
/// logarithms are taken of few tokens.
#[inline(always)]
fn draw(
    temperature: f32,
    rng: CounterRng,
    logits: &[f32],
    best: RankedToken,
    weights: &[f32],
) -> u32 {
    let temperature = f64::from(temperature);
    // Relative to the likeliest token's.
    let score = |id: u32| {
        let logit = f64::from(logits[id as usize]) - f64::from(best.logit);
        logit / temperature + rng.gumbel(id)
    };
    let mut winner = (score(best.id), best.id);
    let mut factor = bound(winner.0);
    for (index, weights) in weights.chunks(GROUP).enumerate() {
        let first = (index * GROUP) as u32;
        let can_win = |place: usize, weight: f32| {
            // The first 24 bits of u: 1 - u is larger than what lacks them and one more.
            let bits = (rng.bits(first + place as u32) >> 29) as u32;
            (((1 << 24) - 1 - bits) as f32) < weight * factor
        };
        let any = weights.iter().enumerate().fold(false, |any, (i, &w)| any | can_win(i, w));
        if !any {
            continue;
        }
        for (id, &weight) in (first..).zip(weights) {
            if can_win((id - first) as usize, weight) {
                let score = score(id);
                if score > winner.0 || (score == winner.0 && id < winner.1) {
                    winner = (score, id);
                }
            }
        }
        factor = bound(winner.0);
    }
    winner.1
}

/// `2^24 e^-leader`, and a little more.
fn bound(leader: f64) -> f32 {
    ((-leader).exp() * GENEROUS * f64::from(1 << 24)) as f32
}
