//! Which pairs share a step, in which order, and how a step falls into parts that are computed alone.
//!
//! All of it follows from the pairs, the seed and the number of the step; nothing from the machine.

use std::sync::Arc;

use crate::rng::{CounterRng, Purpose};

/// Rows of a part, padding included, unless one text alone is longer. Products over rows then stay
/// within one block of the matrix library whatever the processor's caches, so that sums are taken in
/// one order everywhere; and parts are small enough that a step keeps several cores busy.
const PART_ROWS: usize = 512;

/// Batches of which lengths are sorted together: enough that a batch has texts of like length, and few
/// enough that batches differ from epoch to epoch.
const WINDOW: usize = 16;

/// A text that is read and the text that should be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub input: String,
    pub output: String,
    /// How much it counts, above 0. A token of a pair of weight 2 counts like two tokens.
    pub weight: f32,
}

impl Pair {
    /// A pair of weight 1.
    pub fn new(input: impl Into<String>, output: impl Into<String>) -> Self {
        Self { input: input.into(), output: output.into(), weight: 1.0 }
    }
}

/// A pair as tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    pub input: Vec<u32>,
    pub output: Vec<u32>,
    pub weight: f32,
}

/// Texts of one part, one after the other, each filled up to the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    pub ids: Arc<[u32]>,
    /// Real tokens of each.
    pub lengths: Vec<usize>,
    /// Tokens of each, padding included.
    pub longest: usize,
}

/// Pairs that are computed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub inputs: Texts,
    /// What the decoder reads: the outputs, one token later.
    pub outputs: Texts,
    /// What the decoder should say at each row.
    pub targets: Vec<u32>,
    /// What each row counts in the mean over the whole batch; 0 beyond the end.
    pub weights: Vec<f32>,
}

/// The order of pairs, epoch by epoch.
pub struct Order<'a> {
    examples: &'a [Example],
    batch: usize,
    seed: u64,
    /// The epoch whose batches these are.
    epoch: u64,
    batches: Vec<Vec<usize>>,
}

impl<'a> Order<'a> {
    /// The order of at least one example.
    pub fn new(examples: &'a [Example], batch: usize, seed: u64) -> Self {
        let mut order = Self { examples, batch, seed, epoch: 0, batches: Vec::new() };
        order.batches = order.shuffle();
        order
    }

    /// The pairs of a step, from 0.
    pub fn step(&mut self, step: u32) -> &[usize] {
        let count = self.batches.len() as u64;
        let epoch = u64::from(step) / count;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.batches = self.shuffle();
        }
        &self.batches[(u64::from(step) % count) as usize]
    }

    /// The batches of an epoch: pairs by chance, sorted by length in windows, batches by chance.
    fn shuffle(&self) -> Vec<Vec<usize>> {
        let rng = |purpose| CounterRng::new(self.seed, purpose).of(self.epoch);
        let mut pairs = by_chance((0..self.examples.len()).collect(), rng(Purpose::Pairs));
        let mut batches = Vec::new();
        for window in pairs.chunks_mut(self.batch * WINDOW) {
            sort_by_length(self.examples, window);
            batches.extend(window.chunks(self.batch).map(<[usize]>::to_vec));
        }
        by_chance(batches, rng(Purpose::Batches))
    }
}

fn by_chance<T>(items: Vec<T>, rng: CounterRng) -> Vec<T> {
    let mut keyed: Vec<(u64, T)> =
        items.into_iter().enumerate().map(|(i, item)| (rng.bits(i as u64), item)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, item)| item).collect()
}

/// Shortest first; those of one length keep their order.
pub fn sort_by_length(examples: &[Example], pairs: &mut [usize]) {
    pairs.sort_by_key(|&pair| (examples[pair].input.len(), examples[pair].output.len()));
}

/// Cuts pairs, in this order, into parts. `start` begins every output.
pub fn parts(examples: &[Example], pairs: &[usize], start: u32) -> Vec<Part> {
    let total = weight_of(examples, pairs);
    let mut parts = Vec::new();
    let mut rest = pairs;
    while !rest.is_empty() {
        let (mut count, mut input, mut output) = (0, 0, 0);
        for &pair in rest {
            input = examples[pair].input.len().max(input);
            output = examples[pair].output.len().max(output);
            if count > 0 && (count + 1) * input.max(output) > PART_ROWS {
                break;
            }
            count += 1;
        }
        let (these, others) = rest.split_at(count);
        parts.push(part(examples, these, start, total));
        rest = others;
    }
    parts
}

/// What all tokens of some pairs count together.
pub fn weight_of(examples: &[Example], pairs: &[usize]) -> f64 {
    let weight = |&pair: &usize| {
        let example = &examples[pair];
        f64::from(example.weight) * example.output.len() as f64
    };
    pairs.iter().map(weight).sum()
}

/// Tokens that a step reads and writes, padding not counted.
pub fn tokens_of(examples: &[Example], pairs: &[usize]) -> usize {
    pairs.iter().map(|&pair| examples[pair].input.len() + examples[pair].output.len()).sum()
}

fn part(examples: &[Example], pairs: &[usize], start: u32, total: f64) -> Part {
    let inputs: Vec<&[u32]> = pairs.iter().map(|&pair| &examples[pair].input[..]).collect();
    let shifted: Vec<Vec<u32>> = pairs
        .iter()
        .map(|&pair| {
            let output = &examples[pair].output;
            std::iter::once(start).chain(output[..output.len() - 1].iter().copied()).collect()
        })
        .collect();
    let shifted: Vec<&[u32]> = shifted.iter().map(Vec::as_slice).collect();
    let outputs = texts(&shifted, start);
    let mut targets = Vec::with_capacity(outputs.ids.len());
    let mut weights = Vec::with_capacity(outputs.ids.len());
    for (row, &pair) in pairs.iter().enumerate() {
        let example = &examples[pair];
        let end = (row + 1) * outputs.longest;
        targets.extend(&example.output);
        targets.resize(end, start);
        weights.resize(
            row * outputs.longest + example.output.len(),
            (f64::from(example.weight) / total) as f32,
        );
        weights.resize(end, 0.0);
    }
    Part { inputs: texts(&inputs, start), outputs, targets, weights }
}

fn texts(texts: &[&[u32]], fill: u32) -> Texts {
    let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
    let mut ids = Vec::with_capacity(texts.len() * longest);
    for (row, text) in texts.iter().enumerate() {
        ids.extend_from_slice(text);
        ids.resize((row + 1) * longest, fill);
    }
    Texts { ids: ids.into(), lengths: texts.iter().map(|text| text.len()).collect(), longest }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example(input: usize, output: usize) -> Example {
        let ids = |length: usize| (0..length).map(|i| 3 + i as u32).collect();
        Example { input: ids(input), output: ids(output), weight: 2.0 }
    }

    proptest! {
        #[test]
        fn every_epoch_has_every_pair_once(
            lengths in prop::collection::vec((1..40_usize, 1..10_usize), 1..90),
            batch in 1..9_usize,
            seed in any::<u64>(),
        ) {
            let examples: Vec<_> = lengths.iter().map(|&(i, o)| example(i, o)).collect();
            let steps = examples.len().div_ceil(batch);
            let mut order = Order::new(&examples, batch, seed);
            for epoch in 0..3 {
                let mut seen = Vec::new();
                for step in epoch * steps..(epoch + 1) * steps {
                    let pairs = order.step(step as u32).to_vec();
                    prop_assert!(pairs.len() <= batch);
                    // A later step can be asked for at once.
                    let other = Order::new(&examples, batch, seed).step(step as u32).to_vec();
                    prop_assert_eq!(&pairs, &other);
                    seen.extend(pairs);
                }
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..examples.len()).collect::<Vec<_>>());
            }
        }

        #[test]
        fn parts_hold_all_tokens_and_weights_make_a_mean(
            lengths in prop::collection::vec((1..700_usize, 1..60_usize), 1..40),
        ) {
            let examples: Vec<_> = lengths.iter().map(|&(i, o)| example(i, o)).collect();
            let pairs: Vec<usize> = (0..examples.len()).collect();
            let parts = parts(&examples, &pairs, 0);
            let count = |part: &Part| part.inputs.lengths.len();
            prop_assert_eq!(parts.iter().map(count).sum::<usize>(), examples.len());
            let mean: f32 = parts.iter().flat_map(|part| &part.weights).sum();
            prop_assert!((mean - 1.0).abs() < 1e-4);
            for part in &parts {
                let rows = part.inputs.ids.len().max(part.outputs.ids.len());
                prop_assert!(rows <= PART_ROWS || count(part) == 1);
                prop_assert_eq!(part.targets.len(), part.outputs.ids.len());
                prop_assert_eq!(part.weights.len(), part.outputs.ids.len());
            }
        }
    }

    #[test]
    fn outputs_are_read_one_token_later() {
        let examples = [example(2, 3), example(1, 1)];
        let part = parts(&examples, &[0, 1], 0).remove(0);
        assert_eq!(part.inputs.ids[..], [3, 4, 3, 0]);
        assert_eq!(part.inputs.lengths, [2, 1]);
        assert_eq!(part.outputs.ids[..], [0, 3, 4, 0, 0, 0]);
        assert_eq!(part.targets, [3, 4, 5, 3, 0, 0]);
        assert_eq!(part.weights, [0.25, 0.25, 0.25, 0.25, 0.0, 0.0]);
    }

    #[test]
    fn another_seed_is_another_order() {
        let examples: Vec<_> = (0..50).map(|_| example(3, 2)).collect();
        let first = |seed| Order::new(&examples, 4, seed).step(0).to_vec();
        assert_ne!(first(1), first(2));
    }
}
