//! From the cells that the kernels of `pick.cu` leave to tokens with log-probabilities.

use std::cmp::Ordering;

use super::ask::{Asked, OWN_CELLS};
use crate::backend::{How, Pick, Picked, Token};

/// Says that there is no token.
const NO_TOKEN: u32 = u32::MAX;

/// A token with its logit.
#[derive(Clone, Copy, Debug)]
struct Likely {
    id: u32,
    logit: f32,
}

impl Likely {
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

/// Adds the results of `picks`, which asked for `asked` and got `cells`.
pub(super) fn answer(picks: &[Pick], asked: &Asked, cells: &[u64], out: &mut Picked) {
    let own = cells.chunks_exact(OWN_CELLS);
    for ((pick, own), results) in picks.iter().zip(own).zip(&asked.results) {
        let (norm, best) = (f64::from_bits(own[0]), Likely::new(own[1]));
        if norm.is_finite() && best.id != NO_TOKEN {
            answer_one(pick, norm, best, &cells[results.clone()], out);
        } else {
            // Of no use, or everything is banned.
            out.tokens.push(Token { id: 0, logprob: f32::NAN });
        }
        out.end();
    }
}

fn answer_one(pick: &Pick, norm: f64, best: Likely, results: &[u64], out: &mut Picked) {
    let logprob = |logit: f32| (f64::from(logit) - norm) as f32;
    let token = |likely: Likely| Token { id: likely.id, logprob: logprob(likely.logit) };
    let results = results.iter().map(|&cell| Likely::new(cell));
    let ordered = || {
        let mut all: Vec<Likely> = results.clone().filter(|one| one.id != NO_TOKEN).collect();
        all.sort_unstable_by(Likely::order);
        all.into_iter().map(token)
    };
    match pick.how {
        How::Greedy => out.tokens.push(token(best)),
        How::Given { .. } => out
            .tokens
            .extend(results.map(|given| Token { id: best.id, logprob: logprob(given.logit) })),
        How::Sample { .. } => out.tokens.extend(results.map(token)),
        How::Top { .. } => out.tokens.extend(ordered()),
        How::Among { count, .. } => out.tokens.extend(ordered().take(count as usize)),
    }
}
