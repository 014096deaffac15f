//! Sampling.

use proptest::prelude::*;

use super::given::{devices, numbers};
use super::sampling::{log_probabilities, pick_from, sampling};
use crate::backend::SamplingMethod;
use crate::cpu::Cpu;
use crate::rng::CounterRng;

/// The tokens that transformers' warpers leave, in f64.
fn left(logits: &[f64], top_k: usize, top_p: f64) -> Vec<bool> {
    let mut logits = logits.to_vec();
    if top_k != 0 && top_k < logits.len() {
        let mut sorted = logits.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let last = sorted[top_k - 1];
        logits.iter_mut().filter(|x| **x < last).for_each(|x| *x = f64::NEG_INFINITY);
    }
    let total: f64 = logits.iter().map(|x| x.exp()).sum();
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    ids.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let mut kept = vec![false; logits.len()];
    let mut sum = 0.0;
    for id in ids {
        if sum < top_p || top_p >= 1.0 {
            kept[id] = logits[id] > f64::NEG_INFINITY;
        }
        sum += logits[id].exp() / total;
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_sample_is_the_largest_of_what_is_left_with_noise(
        vocabulary in 1..200_usize,
        seed: u64,
        temperature in 0.1..3.0_f32,
        top_k in 0..30_u32,
        top_p in prop_oneof![Just(1.0_f32), 0.0..1.0_f32],
    ) {
        let logits: Vec<f32> = numbers(seed, vocabulary).iter().map(|x| x * 6.0).collect();
        let rng = CounterRng::new(seed, 1, 2, 3);
        let tempered: Vec<f64> =
            logits.iter().map(|&x| f64::from(x) / f64::from(temperature)).collect();
        let kept = left(&tempered, top_k as usize, f64::from(top_p));
        let score = |id: usize| tempered[id] + rng.gumbel(id as u32);
        let wanted = (0..vocabulary)
            .filter(|&id| kept[id])
            .max_by(|&a, &b| score(a).total_cmp(&score(b)))
            .unwrap();
        let method = SamplingMethod::Sample { temperature, top_k, top_p, rng };
        for mut cpu in devices() {
            let out = pick_from(&mut cpu, &logits, vocabulary, &sampling(&[method]));
            prop_assert_eq!(out.tokens[0].id as usize, wanted);
            let error = f64::from(out.tokens[0].logprob) - log_probabilities(&logits)[wanted];
            prop_assert!(error.abs() < 1e-6);
        }
    }
}

#[test]
fn equals_of_the_last_of_top_k_stay() {
    let logits = [1.0, 5.0, 1.0, 1.0, 0.0];
    let mut seen = [false; 5];
    for step in 0..400 {
        let rng = CounterRng::new(1, 2, 3, step);
        let method = SamplingMethod::Sample { temperature: 5.0, top_k: 2, top_p: 1.0, rng };
        let out = pick_from(&mut Cpu::default(), &logits, 5, &sampling(&[method]));
        seen[out.tokens[0].id as usize] = true;
    }
    assert_eq!(seen, [true, true, true, true, false]);
}

#[test]
fn samples_have_the_right_distribution() {
    const DRAWS: usize = 20_000;
    let logits = [0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1.5, 0.0];
    let method = |row| SamplingMethod::Sample {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        rng: CounterRng::new(11, row as u64, 0, 0),
    };
    let asked = sampling(&(0..DRAWS).map(method).collect::<Vec<_>>());
    let mut counts = [0.0; 8];
    for token in pick_from(&mut Cpu::default(), &logits.repeat(DRAWS), 8, &asked).tokens {
        counts[token.id as usize] += 1.0;
    }
    let chi_square: f64 = log_probabilities(&logits)
        .iter()
        .zip(counts)
        .map(|(log, count)| {
            let wanted = log.exp() * DRAWS as f64;
            (count - wanted) * (count - wanted) / wanted
        })
        .sum();
    // Seven degrees of freedom: above 24.3 once in a thousand seeds, and the seed is fixed.
    assert!(chi_square < 24.3, "{chi_square}");
}
