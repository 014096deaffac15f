//! Which pairs share a step, in which order, and how a step falls into parts that are computed alone.
//!
//! All of it follows from the pairs, the seed and the number of the step; nothing from the machine.

use std::sync::Arc;

use crate::graph::ops::Advantage;
use crate::rng::{CounterRng, Purpose};

/// Rows of a part, unless one text alone is longer: enough that products are fast, and few enough that a step keeps
/// several cores busy.
const PART_ROWS: usize = 512;

/// Batches of which lengths are sorted together: enough that a batch has texts of like length, and few
/// enough that batches differ from epoch to epoch.
const WINDOW: usize = 16;

/// What is read before an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The output is learnt from its beginning: only by a decoder-only model.
    Nothing,
    Text(String),
    /// Texts that an encoder reads each apart, and of which the decoder behind it sees all (fusion in the decoder).
    Passages(Vec<String>),
}

impl Input {
    /// Its texts.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::Nothing => &[],
            Self::Text(text) => std::slice::from_ref(text),
            Self::Passages(passages) => passages,
        }
    }
}

/// What is read and the text that should be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub input: Input,
    pub output: String,
    /// How much it counts, above 0. A token of a pair of weight 2 counts like two tokens.
    pub weight: f32,
    /// Only for the objective `policy`, which needs it.
    pub logged: Option<Logged>,
}

impl Pair {
    /// Two texts that weigh 1.
    pub fn new(input: impl Into<String>, output: impl Into<String>) -> Self {
        let input = Input::Text(input.into());
        Self { input, output: output.into(), weight: 1.0, logged: None }
    }
}

/// What an output that somebody wrote before was worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logged {
    /// The larger the better; of any sign.
    pub reward: f32,
    /// The log-probability of the output, its end included, under the policy that drew it; none if it is taken for a draw
    /// of the policy under training.
    pub logprob: Option<f32>,
}

/// A pair as tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// All passages, one after the other.
    pub input: Vec<u32>,
    /// Tokens of each passage; one where a text is read.
    pub passages: Vec<usize>,
    pub output: Vec<u32>,
    pub weight: f32,
    pub logged: Option<Logged>,
}

/// What stands before an output where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// This token: the input is an encoder's.
    Token(u32),
    /// The input, with what the tokenizer puts before it.
    Input,
}

/// How rewards become gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scoring {
    /// What is taken from every reward.
    pub baseline: f64,
    /// What the entropy of a token's distribution counts.
    pub entropy: f64,
    /// The largest importance weight.
    pub ratio_max: f64,
}

/// Texts of one part, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    pub ids: Arc<[u32]>,
    /// Tokens of each.
    pub lengths: Arc<[usize]>,
}

impl Texts {
    fn new(texts: Vec<&[u32]>) -> Self {
        Self { lengths: texts.iter().map(|text| text.len()).collect(), ids: texts.concat().into() }
    }

    /// Tokens of the longest.
    pub fn longest(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }
}

/// Texts whose vectors are computed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub texts: Texts,
    /// The place of each among all.
    pub places: Vec<usize>,
}

/// Pairs that are computed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What the encoder reads: all passages of all pairs.
    pub inputs: Texts,
    /// Rows of `inputs` of each pair.
    pub read: Arc<[usize]>,
    /// What the decoder reads: the outputs, one token later, of a decoder-only model behind the inputs.
    pub outputs: Texts,
    /// What the decoder should say at each row.
    pub targets: Vec<u32>,
    /// What each row counts in the mean over the whole batch.
    pub weights: Vec<f32>,
    /// What each output was worth, where that is what is learnt.
    pub rewards: Option<Rewards>,
}

/// The rewards of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewards {
    pub advantages: Vec<Advantage>,
    pub scoring: Scoring,
}

/// The order of pairs, epoch by epoch.
pub struct Order<'a> {
    examples: &'a [Example],
    batch: usize,
    /// Batches of which lengths are sorted together.
    window: usize,
    seed: u64,
    /// The epoch whose batches these are.
    epoch: u64,
    batches: Vec<Vec<usize>>,
}

impl<'a> Order<'a> {
    /// The order of at least one example. In batches `by_chance` alone, whatever the lengths, any two pairs meet.
    pub fn new(examples: &'a [Example], batch: usize, seed: u64, by_chance: bool) -> Self {
        let window = if by_chance { 1 } else { WINDOW };
        let mut order = Self { examples, batch, window, seed, epoch: 0, batches: Vec::new() };
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
        for window in pairs.chunks_mut(self.batch * self.window) {
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

/// Cuts pairs, in this order, into parts. With `scoring` the parts have rewards.
pub fn parts(
    examples: &[Example],
    pairs: &[usize],
    begin: Begin,
    scoring: Option<Scoring>,
) -> Vec<Part> {
    let total = weight_of(examples, pairs);
    let weights = pairs.iter().map(|&pair| f64::from(examples[pair].weight)).sum();
    let rewards = |these: &[usize]| {
        scoring.map(|scoring| {
            let advantages = these.iter().map(|&pair| advantage(&examples[pair], scoring, weights));
            Rewards { advantages: advantages.collect(), scoring }
        })
    };
    let mut parts = Vec::new();
    let mut rest = pairs;
    while !rest.is_empty() {
        let rows = |&pair: &usize| {
            let (input, output) = (examples[pair].input.len(), examples[pair].output.len());
            match begin {
                Begin::Token(_) => (input, output),
                Begin::Input => (0, input + output - 1),
            }
        };
        let (these, others) = rest.split_at(fitting(rest.iter().map(rows)));
        parts.push(Part { rewards: rewards(these), ..part(examples, these, begin, total) });
        rest = others;
    }
    parts
}

/// What an output of a batch whose weights sum to `total` was worth.
fn advantage(example: &Example, scoring: Scoring, total: f64) -> Advantage {
    let share = f64::from(example.weight) / total;
    let reward = example.logged.map_or(0.0, |logged| f64::from(logged.reward));
    Advantage {
        advantage: (share * (reward - scoring.baseline)) as f32,
        share: share as f32,
        drawn: example.logged.and_then(|logged| logged.logprob),
    }
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

/// How many of these fit a part, by their rows on either side: at least one.
fn fitting(rows: impl Iterator<Item = (usize, usize)>) -> usize {
    let mut sums = (0, 0);
    let fits = |(left, right): (usize, usize)| {
        sums = (sums.0 + left, sums.1 + right);
        sums.0.max(sums.1) <= PART_ROWS
    };
    rows.map(fits).take_while(|fits| *fits).count().max(1)
}

/// Puts texts together whose vectors are requested, those of like length side by side.
pub fn readings(texts: &[&[u32]]) -> Vec<Reading> {
    let mut places: Vec<usize> = (0..texts.len()).collect();
    places.sort_by_key(|&place| texts[place].len());
    let mut readings = Vec::new();
    let mut rest = &places[..];
    while !rest.is_empty() {
        let count = fitting(rest.iter().map(|&place| (texts[place].len(), 0)));
        let (these, others) = rest.split_at(count);
        let texts = Texts::new(these.iter().map(|&place| texts[place]).collect());
        readings.push(Reading { texts, places: these.to_vec() });
        rest = others;
    }
    readings
}

fn part(examples: &[Example], pairs: &[usize], begin: Begin, total: f64) -> Part {
    let examples = || pairs.iter().map(|&pair| &examples[pair]);
    let weight = |it: &Example, rows: usize| {
        std::iter::repeat_n((f64::from(it.weight) / total) as f32, rows)
    };
    let (inputs, read, outputs, targets, weights);
    match begin {
        Begin::Token(start) => {
            let shifted: Vec<Vec<u32>> = examples()
                .map(|it| [&[start], &it.output[..it.output.len() - 1]].concat())
                .collect();
            inputs = Texts {
                ids: examples().flat_map(|it| &it.input).copied().collect(),
                lengths: examples().flat_map(|it| &it.passages).copied().collect(),
            };
            read = examples().map(|it| it.input.len()).collect();
            outputs = Texts::new(shifted.iter().map(Vec::as_slice).collect());
            targets = examples().flat_map(|it| &it.output).copied().collect();
            weights = examples().flat_map(|it| weight(it, it.output.len())).collect();
        }
        Begin::Input => {
            let whole: Vec<Vec<u32>> =
                examples().map(|it| [&it.input[..], &it.output].concat()).collect();
            inputs = Texts::new(Vec::new());
            read = Arc::default();
            outputs = Texts::new(whole.iter().map(|ids| &ids[..ids.len() - 1]).collect());
            targets = whole.iter().flat_map(|ids| &ids[1..]).copied().collect();
            // Nothing is learnt of the input.
            let rows = |it: &Example| {
                let silent = std::iter::repeat_n(0.0, it.input.len() - 1);
                silent.chain(weight(it, it.output.len()))
            };
            weights = examples().flat_map(rows).collect();
        }
    }
    Part { inputs, read, outputs, targets, weights, rewards: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example(input: usize, output: usize) -> Example {
        let ids = |length: usize| (0..length).map(|i| 3 + i as u32).collect();
        let passages = vec![input];
        Example { input: ids(input), passages, output: ids(output), weight: 2.0, logged: None }
    }

    proptest! {
        #[test]
        fn every_epoch_has_every_pair_once(
            lengths in prop::collection::vec((1..40_usize, 1..10_usize), 1..90),
            batch in 1..9_usize,
            seed in any::<u64>(),
            chance in any::<bool>(),
        ) {
            let examples: Vec<_> = lengths.iter().map(|&(i, o)| example(i, o)).collect();
            let steps = examples.len().div_ceil(batch);
            let mut order = Order::new(&examples, batch, seed, chance);
            for epoch in 0..3 {
                let mut seen = Vec::new();
                for step in epoch * steps..(epoch + 1) * steps {
                    let pairs = order.step(step as u32).to_vec();
                    prop_assert!(pairs.len() <= batch);
                    // A later step can be requested at once.
                    let other = Order::new(&examples, batch, seed, chance).step(step as u32).to_vec();
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
            let parts = parts(&examples, &pairs, Begin::Token(0), None);
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
        let part = parts(&examples, &[0, 1], Begin::Token(0), None).remove(0);
        assert_eq!(part.inputs.ids[..], [3, 4, 3]);
        assert_eq!(part.inputs.lengths[..], [2, 1]);
        assert_eq!(part.outputs.ids[..], [0, 3, 4, 0]);
        assert_eq!(part.outputs.lengths[..], [3, 1]);
        assert_eq!(part.targets, [3, 4, 5, 3]);
        assert_eq!(part.weights, [0.25; 4]);
        assert_eq!(part.read[..], [2, 1]);
    }

    #[test]
    fn a_decoder_alone_reads_inputs_and_learns_outputs() {
        let examples = [example(3, 2), example(1, 1)];
        let part = parts(&examples, &[0, 1], Begin::Input, None).remove(0);
        assert!(part.inputs.ids.is_empty() && part.read.is_empty());
        assert_eq!(part.outputs.ids[..], [3, 4, 5, 3, 3]);
        assert_eq!(part.outputs.lengths[..], [4, 1]);
        assert_eq!(part.targets, [4, 5, 3, 4, 3]);
        let third = 1.0 / 3.0;
        assert_eq!(part.weights, [0.0, 0.0, third, third, third]);
    }

    #[test]
    fn passages_are_read_apart() {
        let several = Example { passages: vec![2, 3], ..example(5, 1) };
        let part = parts(&[several, example(1, 1)], &[0, 1], Begin::Token(0), None).remove(0);
        assert_eq!(part.inputs.lengths[..], [2, 3, 1]);
        assert_eq!(part.read[..], [5, 1]);
    }

    #[test]
    fn readings_hold_every_text_once() {
        let texts: Vec<Vec<u32>> = (0..40).map(|i| vec![i; 1 + (i as usize * 37) % 90]).collect();
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let readings = readings(&texts);
        assert!(readings.len() > 2);
        let mut seen = Vec::<usize>::new();
        for Reading { texts: these, places } in &readings {
            assert!(these.ids.len() <= PART_ROWS);
            let all: Vec<u32> = places.iter().flat_map(|&at| texts[at]).copied().collect();
            assert_eq!(these.ids[..], all);
            seen.extend(places);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn another_seed_is_another_order() {
        let examples: Vec<_> = (0..50).map(|_| example(3, 2)).collect();
        let first = |seed| Order::new(&examples, 4, seed, false).step(0).to_vec();
        assert_ne!(first(1), first(2));
    }
}
