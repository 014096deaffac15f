//! Pairs, settings and runs that tests share.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use proofmill_fit::{FitError, Fitted, Pair, Report, Run, Start, Tokens, fit};
use proofmill_settings::fit::{Activation, Decay, Sizes, Training};

/// Twenty pairs with outputs of several lengths that no rule tells.
pub fn pairs() -> Vec<Pair> {
    let things = ["hook", "spoon", "bottle", "rope", "window"];
    let materials = ["steel", "wood", "glass", "cotton", "ice"];
    let mut pairs = Vec::new();
    for (i, thing) in things.iter().enumerate() {
        for j in 0..4 {
            let material = materials[(i * 3 + j * 2) % 5];
            let (input, output) = match j {
                0 => (
                    format!("$proof$ ; $question$ = What is a {thing} made of?"),
                    format!("[PREMISE] a {thing} is made of {material}."),
                ),
                1 => (format!("$valid$ ; a {thing} is hard"), "true".to_owned()),
                2 => (format!("$valid$ ; a {thing} (new) is soft"), format!("false, {material}")),
                _ => ((*thing).to_owned(), format!("{material} {thing}: {material}")),
            };
            pairs.push(Pair::new(input, output));
        }
    }
    pairs
}

/// A model of a few thousand numbers.
pub fn sizes() -> Sizes {
    Sizes { d_model: 32, d_kv: 8, d_ff: 64, heads: 4, layers: 1, ..Sizes::tiny() }
}

/// One token a word.
pub fn scratch(activation: Activation) -> Start {
    let tokens = Tokens::Words { also: Vec::new() };
    Start::Scratch { sizes: Sizes { activation: Some(activation), ..sizes() }, tokens }
}

/// A few quick steps.
pub fn settings(steps: u32) -> Training {
    Training {
        steps,
        batch: 8,
        warmup: steps.min(10),
        decay: Decay::Cosine,
        learning_rate: 1e-2,
        evaluate_every: 5,
        ..Training::default()
    }
}

/// A fit on this many threads; every report goes to `look`.
pub fn run(
    settings: &Training,
    start: &Start,
    (train, dev): (&[Pair], &[Pair]),
    (threads, state): (usize, Option<&Path>),
    look: &mut dyn FnMut(&Report, &AtomicBool),
) -> Result<Fitted, FitError> {
    let cancel = AtomicBool::new(false);
    let mut progress = |report: &Report| look(report, &cancel);
    let clock = || Duration::from_secs(1);
    let scratch = tempfile::tempdir().unwrap();
    let run = Run {
        threads,
        state,
        scratch: scratch.path(),
        cancel: &cancel,
        clock: &clock,
        progress: &mut progress,
    };
    fit(settings, start, train, dev, run)
}

/// A fit on one thread without a look at its reports.
pub fn fitted(settings: &Training, start: &Start, train: &[Pair], dev: &[Pair]) -> Fitted {
    run(settings, start, (train, dev), (1, None), &mut |_, _| ()).unwrap()
}
