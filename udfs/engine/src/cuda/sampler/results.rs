//! Turns the results of the kernels of `pick.cu` into tokens with log-probabilities.

use std::cmp::Ordering;

use super::records::{OWN_CELLS, SamplerRecords};
use crate::backend::{RowSampling, SamplerOutput, SamplingMethod, Token};

/// Says that there is no token.
const NO_TOKEN: u32 = u32::MAX;

/// A token with its logit.
#[derive(Clone, Copy, Debug)]
struct RankedToken {
    id: u32,
    logit: f32,
}

impl RankedToken {
    fn new(cell: u64) -> Self {
        Self { id: cell as u32, logit: f32::from_bits((cell >> 32) as u32) }
    }

    /// The likelier first, of equals the one with the smaller id. Zeros of either sign are equal,
    /// and there is no NaN in a row with a finite log-sum-exp.
    fn order(&self, other: &Self) -> Ordering {
        let logits = other.logit.partial_cmp(&self.logit).unwrap_or(Ordering::Equal);
        logits.then(self.id.cmp(&other.id))
    }
}

/// Adds the results of the rows of `sampling`, whose records are `requested`, out of `cells`.
pub(super) fn answer(
    sampling: &[RowSampling],
    requested: &SamplerRecords,
    cells: &[u64],
    out: &mut SamplerOutput,
) {
    let own = cells.chunks_exact(OWN_CELLS);
    for ((row, own), results) in sampling.iter().zip(own).zip(&requested.results) {
        let (norm, best) = (f64::from_bits(own[0]), RankedToken::new(own[1]));
        if norm.is_finite() && best.id != NO_TOKEN {
            answer_one(row, norm, best, &cells[results.clone()], out);
        } else {
            // Of no use, or everything is banned.
            out.tokens.push(Token { id: 0, logprob: f32::NAN });
        }
        out.end();
    }
}

fn answer_one(
    row: &RowSampling,
    norm: f64,
    best: RankedToken,
    results: &[u64],
    out: &mut SamplerOutput,
) {
    let logprob = |logit: f32| (f64::from(logit) - norm) as f32;
    let token = |likely: RankedToken| Token { id: likely.id, logprob: logprob(likely.logit) };
    let results = results.iter().map(|&cell| RankedToken::new(cell));
    let ordered = || {
        let mut all: Vec<RankedToken> = results.clone().filter(|one| one.id != NO_TOKEN).collect();
        all.sort_unstable_by(RankedToken::order);
        all.into_iter().map(token)
    };
    match row.method {
        SamplingMethod::Greedy => out.tokens.push(token(best)),
        SamplingMethod::Score { .. } => out
            .tokens
            .extend(results.map(|given| Token { id: best.id, logprob: logprob(given.logit) })),
        SamplingMethod::Sample { .. } => out.tokens.extend(results.map(token)),
        SamplingMethod::TopK { .. } => out.tokens.extend(ordered()),
        SamplingMethod::Choices { count, .. } => out.tokens.extend(ordered().take(count as usize)),
    }
}
