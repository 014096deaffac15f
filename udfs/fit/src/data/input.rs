//! From pairs of texts to examples of ids, with everything refused that cannot be learnt.

use crate::data::batch::{Begin, Example, Input, Pair};
use crate::error::{FitError, Set, Side};
use crate::model::origin::Origin;
use proofmill_settings::fit::{Judge, Objective, Training};

/// Refuses pairs without text or weight, and without a reward where rewards are learnt.
pub fn check(set: Set, pairs: &[Pair], settings: &Training) -> Result<(), FitError> {
    let Training { objective, judge, .. } = *settings;
    for (pair, it) in pairs.iter().enumerate() {
        if (set, judge, &it.input) == (Set::Dev, Judge::ExactMatch, &Input::Nothing) {
            let (name, found) = ("judge", "exact_match".to_owned());
            let expected = "loss, where outputs have no input".to_owned();
            return Err(FitError::Setting { name, found, expected });
        }
        let inputs = it.input.texts().iter().map(|text| (Side::Input, text));
        for (side, text) in inputs.chain([(Side::Output, &it.output)]) {
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
    settings: &Training,
) -> Result<Vec<Example>, FitError> {
    let decoder_only = origin.writes.as_ref().is_some_and(|writes| writes.begin == Begin::Input);
    let example = |(pair, it): (usize, &Pair)| {
        let place = Place { set, pair, origin, settings };
        let (passages, output) = match (&it.input, &origin.writes) {
            (Input::Nothing, Some(writes)) if decoder_only => {
                place.continuation("", &it.output, writes.end)?
            }
            (Input::Text(text), Some(writes)) if decoder_only => {
                place.continuation(text, &it.output, writes.end)?
            }
            (Input::Text(text), _) => {
                (vec![place.read(Side::Input, text)?], place.read(Side::Output, &it.output)?)
            }
            (Input::Passages(passages), Some(_)) if !decoder_only && !passages.is_empty() => {
                let read = |text: &String| place.read(Side::Input, text);
                let passages = passages.iter().map(read).collect::<Result<_, _>>()?;
                (passages, place.read(Side::Output, &it.output)?)
            }
            (Input::Nothing | Input::Passages(_), _) => {
                return Err(FitError::Input { set, pair, given: it.input.texts().len() });
            }
        };
        Ok(Example {
            input: passages.concat(),
            passages: passages.iter().map(Vec::len).collect(),
            output,
            weight: it.weight,
            logged: it.logged,
        })
    };
    pairs.iter().enumerate().map(example).collect()
}

/// A pair that is read.
struct Place<'a> {
    set: Set,
    pair: usize,
    origin: &'a Origin,
    settings: &'a Training,
}

impl Place<'_> {
    /// A text of this side as ids.
    fn read(&self, side: Side, text: &str) -> Result<Vec<u32>, FitError> {
        let origin = self.origin;
        let special = side == Side::Input || origin.writes.is_none();
        let mut ids = origin.reader.encode(text, special)?;
        if let (Side::Output, Some(writes)) = (side, &origin.writes) {
            ids.push(writes.end);
        }
        self.check(side, text, &ids)?;
        self.has_positions(side, ids.len())?;
        Ok(ids)
    }

    /// What a decoder-only model reads before an output, and the output.
    fn continuation(
        &self,
        input: &str,
        output: &str,
        end: u32,
    ) -> Result<(Vec<Vec<u32>>, Vec<u32>), FitError> {
        let reader = &self.origin.reader;
        let (context, mut rest) = reader.continuation(input, output)?;
        let mut before = reader.leading(end)?;
        before.extend(context);
        if before.is_empty() {
            let why = "it puts no token before a text, so that nothing tells the first one; give an `input`";
            return Err(FitError::Tokenizer(why.to_owned()));
        }
        self.check(Side::Input, input, &before)?;
        rest.push(end);
        self.check(Side::Output, output, &rest)?;
        self.has_positions(Side::Output, before.len() + rest.len())?;
        Ok((vec![before], rest))
    }

    /// Refuses ids that are none, too many, or unknown to the model.
    fn check(&self, side: Side, text: &str, ids: &[u32]) -> Result<(), FitError> {
        let Self { set, pair, origin, settings } = *self;
        let limit = match side {
            Side::Input => settings.input_tokens,
            Side::Output => settings.output_tokens,
        };
        if ids.is_empty() {
            return Err(FitError::EmptyText { set, pair, side });
        }
        if ids.len() > limit as usize {
            return Err(FitError::TooLong { set, pair, side, tokens: ids.len(), limit });
        }
        let vocabulary = origin.plan.vocabulary;
        match ids.iter().find(|&&id| id as usize >= vocabulary) {
            Some(id) => Err(FitError::Tokenizer(format!(
                "it gives token {id} for {text:?}, and the model has a vocabulary of {vocabulary}"
            ))),
            None => Ok(()),
        }
    }

    /// Whether the model has a position for each of so many tokens.
    fn has_positions(&self, side: Side, tokens: usize) -> Result<(), FitError> {
        let Self { set, pair, .. } = *self;
        match self.origin.positions.filter(|&limit| tokens > limit) {
            Some(limit) => Err(FitError::NoPositions { set, pair, side, tokens, limit }),
            None => Ok(()),
        }
    }
}
