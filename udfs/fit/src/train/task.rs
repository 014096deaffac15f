//! Which loss is made small, over which examples.

use std::collections::BTreeMap;

use crate::data::batch::{Begin, Example, Reading, Scoring, parts, readings, sort_by_length};
use crate::error::FitError;
use crate::graph::gradients::{Computer, Mode};
use crate::graph::ops::Pool;
use crate::graph::pairs::{BatchLoss, contrastive, similarity};
use crate::model::origin::Origin;
use crate::model::weights::Weights;
use proofmill_settings::fit::{Objective, Training};

/// What is learnt of examples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Task {
    /// The tokens of outputs.
    Generation { begin: Begin },
    /// Which outputs are worth more than others.
    Policy { begin: Begin, scoring: Scoring },
    /// What outputs have in common, measured by the vectors of the model that the fit begins with.
    Similarity { pool: Pool },
    /// Which output belongs to an input.
    Contrastive { pool: Pool, temperature: f64 },
}

/// Pairs as tokens, with what the task needs to know of them besides.
pub struct Examples {
    pub pairs: Vec<Example>,
    /// The number of each output; equal ones share it.
    outputs: Vec<usize>,
    /// The vectors of the outputs by their numbers; only where they are given.
    targets: Vec<Vec<f32>>,
}

/// The inputs, then the outputs, of a batch.
fn texts<'a>(pairs: &[&'a Example], outputs: bool) -> Vec<&'a [u32]> {
    let inputs = pairs.iter().map(|pair| &pair.input[..]);
    if outputs {
        inputs.chain(pairs.iter().map(|pair| &pair.output[..])).collect()
    } else {
        inputs.collect()
    }
}

impl Task {
    /// The task of an objective, for a model that can have it.
    pub fn new(settings: &Training, origin: &Origin) -> Self {
        let (pool, temperature) = (origin.pool, settings.temperature);
        let begin = origin.writes.as_ref().map_or(Begin::Token(0), |writes| writes.begin);
        match settings.objective {
            Objective::Similarity => Self::Similarity { pool },
            Objective::Contrastive => Self::Contrastive { pool, temperature },
            Objective::Generation => Self::Generation { begin },
            Objective::Policy => {
                let (entropy, ratio_max) = (settings.entropy, settings.ratio_max);
                Self::Policy { begin, scoring: Scoring { baseline: 0.0, entropy, ratio_max } }
            }
        }
    }

    /// Whether batches are compared within themselves, so that lengths may not decide who meets whom.
    pub fn compares(self) -> bool {
        matches!(self, Self::Similarity { .. } | Self::Contrastive { .. })
    }

    /// What it needs to know of pairs.
    pub fn examples(
        self,
        pairs: Vec<Example>,
        origin: &Origin,
        threads: usize,
    ) -> Result<Examples, FitError> {
        let mut numbers = BTreeMap::new();
        let mut outputs = Vec::with_capacity(pairs.len());
        let mut distinct = Vec::new();
        if self.compares() {
            for pair in &pairs {
                let next = numbers.len();
                let number = *numbers.entry(&pair.output[..]).or_insert(next);
                if number == next {
                    distinct.push(&pair.output[..]);
                }
                outputs.push(number);
            }
        }
        let targets = match self {
            Self::Similarity { pool } => {
                let computer = Computer::new(&origin.plan, &origin.weights, threads);
                computer.vectors(&readings(&distinct), pool, None)?
            }
            Self::Generation { .. } | Self::Policy { .. } | Self::Contrastive { .. } => Vec::new(),
        };
        Ok(Examples { pairs, outputs, targets })
    }

    /// The loss of a batch, a mean, and its gradient.
    pub fn gradient(
        self,
        computer: &Computer<'_>,
        examples: &Examples,
        batch: &[usize],
        mode: Mode,
    ) -> Result<(f64, Weights), FitError> {
        let pool = match self {
            Self::Generation { begin } => {
                return Ok(computer.gradient(&parts(&examples.pairs, batch, begin, None), mode)?);
            }
            Self::Policy { begin, scoring } => {
                let scoring = Scoring { baseline: mode.baseline, ..scoring };
                let parts = parts(&examples.pairs, batch, begin, Some(scoring));
                return Ok(computer.gradient(&parts, mode)?);
            }
            Self::Similarity { pool } | Self::Contrastive { pool, .. } => pool,
        };
        let readings = self.readings(examples, batch);
        let vectors = computer.vectors(&readings, pool, Some(mode))?;
        let loss = self.of_vectors(examples, batch, vectors);
        // One pair alone is compared with none: nothing is learnt of it.
        let count = if loss.count > 0.0 { loss.count } else { 1.0 };
        let grads: Vec<Vec<f32>> = [loss.inputs, loss.outputs]
            .into_iter()
            .flatten()
            .map(|grad| grad.into_iter().map(|x| (x / count) as f32).collect())
            .collect();
        Ok((loss.sum / count, computer.pull(&readings, pool, mode, &grads)?))
    }

    /// The loss of all examples, a mean; those that are compared come in batches of so many, in their order. Of a policy it
    /// is the reward that it can expect, taken from 0: without a baseline and without entropy.
    pub fn loss(
        self,
        computer: &Computer<'_>,
        examples: &Examples,
        batch: usize,
    ) -> Result<f64, FitError> {
        let mut all: Vec<usize> = (0..examples.pairs.len()).collect();
        let pool = match self {
            Self::Generation { begin } => {
                sort_by_length(&examples.pairs, &mut all);
                return Ok(computer.loss(&parts(&examples.pairs, &all, begin, None))?);
            }
            Self::Policy { begin, scoring } => {
                sort_by_length(&examples.pairs, &mut all);
                let scoring = Scoring { baseline: 0.0, entropy: 0.0, ..scoring };
                return Ok(computer.loss(&parts(&examples.pairs, &all, begin, Some(scoring)))?);
            }
            Self::Similarity { pool } | Self::Contrastive { pool, .. } => pool,
        };
        let (mut sum, mut count) = (0.0, 0.0);
        for batch in all.chunks(batch) {
            let vectors = computer.vectors(&self.readings(examples, batch), pool, None)?;
            let loss = self.of_vectors(examples, batch, vectors);
            sum += loss.sum;
            count += loss.count;
        }
        Ok(sum / count)
    }

    fn readings(self, examples: &Examples, batch: &[usize]) -> Vec<Reading> {
        let pairs: Vec<&Example> = batch.iter().map(|&pair| &examples.pairs[pair]).collect();
        readings(&texts(&pairs, matches!(self, Self::Contrastive { .. })))
    }

    /// The loss of a batch whose texts have these vectors.
    fn of_vectors(
        self,
        examples: &Examples,
        batch: &[usize],
        mut vectors: Vec<Vec<f32>>,
    ) -> BatchLoss {
        let outputs = vectors.split_off(batch.len());
        let weights: Vec<f32> = batch.iter().map(|&pair| examples.pairs[pair].weight).collect();
        let numbers: Vec<usize> = batch.iter().map(|&pair| examples.outputs[pair]).collect();
        match self {
            Self::Contrastive { temperature, .. } => {
                contrastive(&vectors, &outputs, &numbers, &weights, temperature)
            }
            Self::Similarity { .. } | Self::Generation { .. } | Self::Policy { .. } => {
                let given: Vec<Vec<f32>> =
                    numbers.iter().map(|&number| examples.targets[number].clone()).collect();
                similarity(&vectors, &given, &weights)
            }
        }
    }
}
