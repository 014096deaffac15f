//! Steps a second for the shape of the model that ships: `cargo bench -p proofmill-fit`.
//!
//! d_model 128, d_kv 32, d_ff 512, 4 heads, 2 and 2 blocks, 1,000 tokens; batches of 64 pairs of 60 and
//! 12 tokens. Products use candle's pool of threads besides, so that one core is measured with
//! `taskset -c 0` before the command.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and stops where it cannot go on"
)]

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use proofmill_fit::{Pair, Report, Run, Settings, Sizes, Start, Tokens, fit};

/// Steps that are not timed.
const WARM: u32 = 5;
const STEPS: u32 = 40;

fn main() {
    let pairs = pairs();
    for threads in [1, 2] {
        let seconds = seconds(&pairs, threads);
        println!(
            "{threads} parts at a time: {:.2} steps/s, {:.0} tokens/s",
            f64::from(STEPS) / seconds,
            f64::from(STEPS * 64 * 72) / seconds,
        );
    }
}

fn seconds(pairs: &[Pair], threads: usize) -> f64 {
    let settings = Settings { steps: WARM + STEPS, warmup: 0, ..Settings::default() };
    let tokens = Tokens::Words { min_count: 1, also: Vec::new() };
    let start = Start::Scratch { sizes: Sizes::tiny(), tokens };
    let began = Instant::now();
    let mut warm = Duration::ZERO;
    let mut progress = |report: &Report| {
        if report.step == WARM {
            warm = began.elapsed();
        }
    };
    let run = Run {
        threads,
        state: None,
        cancel: &AtomicBool::new(false),
        clock: &|| began.elapsed(),
        progress: &mut progress,
    };
    fit(&settings, &start, pairs, &[], run).expect("the fit fails");
    (began.elapsed() - warm).as_secs_f64()
}

/// Words by a linear congruence: 997 of them, each text of one length.
fn pairs() -> Vec<Pair> {
    let mut word = 1_u32;
    let mut text = |words: usize| {
        let mut next = || {
            word = (word * 17 + 3) % 997;
            format!("w{word}")
        };
        (0..words).map(|_| next()).collect::<Vec<_>>().join(" ")
    };
    (0..1024).map(|_| Pair::new(text(59), text(11))).collect()
}
