//! From pairs of texts to examples of ids, with everything refused that cannot be learnt.

use crate::batch::{Example, Pair};
use crate::error::{FitError, Set, Side};
use crate::origin::Origin;
use crate::settings::{Objective, Settings};

/// Refuses pairs without text or weight, and without a reward where rewards are learnt.
pub fn check(set: Set, pairs: &[Pair], objective: Objective) -> Result<(), FitError> {
    for (pair, it) in pairs.iter().enumerate() {
        for (side, text) in [(Side::Input, &it.input), (Side::Output, &it.output)] {
            if text.trim().is_empty() {
                return Err(FitError::EmptyText { set, pair, side });
            }
        }
        if !(it.weight.is_finite() && it.weight > 0.0) {
            return Err(FitError::Weight { set, pair, weight: it.weight });
        }
        let has_reward = it.logged.is_some_and(|logged| {
            logged.reward.is_finite() && logged.logprob.is_none_or(f32::is_finite)
        });
        if (objective == Objective::Policy) != it.logged.is_some()
            || (it.logged.is_some() && !has_reward)
        {
            return Err(FitError::Reward { set, pair, objective: objective.name() });
        }
    }
    Ok(())
}

/// The pairs as ids.
pub fn encode(
    set: Set,
    pairs: &[Pair],
    origin: &Origin,
    settings: &Settings,
) -> Result<Vec<Example>, FitError> {
    let read = |pair: usize, side: Side, text: &str| {
        let (mut ids, limit) = match side {
            Side::Input => (origin.reader.encode(text, true)?, settings.input_tokens),
            Side::Output => {
                let special = origin.writes.is_none();
                (origin.reader.encode(text, special)?, settings.output_tokens)
            }
        };
        if let (Side::Output, Some(writes)) = (side, &origin.writes) {
            ids.push(writes.end);
        }
        if ids.is_empty() {
            return Err(FitError::EmptyText { set, pair, side });
        }
        if ids.len() > limit as usize {
            return Err(FitError::TooLong { set, pair, side, tokens: ids.len(), limit });
        }
        if let Some(limit) = origin.positions.filter(|&limit| ids.len() > limit) {
            return Err(FitError::NoPositions { set, pair, side, tokens: ids.len(), limit });
        }
        let vocabulary = origin.plan.vocabulary;
        match ids.iter().find(|&&id| id as usize >= vocabulary) {
            Some(id) => Err(FitError::Tokenizer(format!(
                "it gives token {id} for {text:?}, and the model has a vocabulary of {vocabulary}"
            ))),
            None => Ok(ids),
        }
    };
    let pair = |(pair, it): (usize, &Pair)| {
        Ok(Example {
            input: read(pair, Side::Input, &it.input)?,
            output: read(pair, Side::Output, &it.output)?,
            weight: it.weight,
            logged: it.logged,
        })
    };
    pairs.iter().enumerate().map(pair).collect()
}
