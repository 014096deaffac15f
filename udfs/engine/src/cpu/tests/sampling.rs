//! Tokens and their log-probabilities.

use proptest::prelude::*;

use super::given::{devices, linear, numbers, tensor};
use crate::backend::{
    Backend, Precision, RowSampling, SamplerOutput, SamplingMetadata, SamplingMethod, is_allowed,
};
use crate::cpu::Cpu;
use crate::rng::CounterRng;

/// Picks from rows of logits: the head is the unit matrix.
pub(super) fn pick_from(
    cpu: &mut Cpu,
    logits: &[f32],
    vocabulary: usize,
    sampling: &SamplingMetadata,
) -> SamplerOutput {
    let mut unit = vec![0.0; vocabulary * vocabulary];
    unit.iter_mut().step_by(vocabulary + 1).for_each(|x| *x = 1.0);
    let head = linear(&unit, vocabulary, None, Precision::F32);
    cpu.sample(&tensor(logits, vocabulary), &head, 1.0, sampling, None).unwrap()
}

/// The same for all rows, nothing banned.
pub(super) fn sampling(method: &[SamplingMethod]) -> SamplingMetadata {
    let pick = |&method| RowSampling::new(method);
    SamplingMetadata { rows: method.iter().map(pick).collect(), ..SamplingMetadata::default() }
}

pub(super) fn log_probabilities(logits: &[f32]) -> Vec<f64> {
    let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
    logits.iter().map(|&x| f64::from(x) - total.ln()).collect()
}

/// All tokens, the likeliest first, of equals the smaller.
fn ranked(logits: &[f32]) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    ids.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
    ids
}

/// Logits with many ties.
fn coarse(seed: u64, count: usize) -> Vec<f32> {
    numbers(seed, count).iter().map(|x| (x * 20.0).round() / 2.0 + 0.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn all_ways_but_sampling(vocabulary in 1..150_usize, count in 1..20_u32, seed: u64) {
        let logits = coarse(seed, vocabulary);
        let exact = log_probabilities(&logits);
        let ranked = ranked(&logits);
        let given = (seed % vocabulary as u64) as u32;
        let some: Vec<u32> = ranked.iter().copied().filter(|id| id % 3 == given % 3).collect();
        let hows = [
            SamplingMethod::Greedy,
            SamplingMethod::TopK { count },
            SamplingMethod::Score { token: given },
            SamplingMethod::Score { token: ranked[0] },
            SamplingMethod::Choices { first: 1, tokens: some.len() as u32, count },
        ];
        let mut asked = sampling(&hows);
        asked.tokens = [&[0], &some[..]].concat();
        asked.tokens[1..].sort_unstable();
        let best = |ids: &[u32]| ids.iter().take(count as usize).copied().collect::<Vec<_>>();
        let wanted = [
            (vec![ranked[0]], vec![ranked[0]]),
            (best(&ranked), best(&ranked)),
            (vec![ranked[0]], vec![given]),
            (vec![ranked[0]], vec![ranked[0]]),
            (best(&some), best(&some)),
        ];
        let mut first: Option<SamplerOutput> = None;
        for mut cpu in devices() {
            let out = pick_from(&mut cpu, &logits.repeat(5), vocabulary, &asked);
            for (index, (ids, scored)) in wanted.iter().enumerate() {
                let found: Vec<u32> = out.of(index).iter().map(|token| token.id).collect();
                prop_assert_eq!(&found, ids);
                for (token, &id) in out.of(index).iter().zip(scored) {
                    let error = f64::from(token.logprob) - exact[id as usize];
                    prop_assert!(error.abs() < 1e-6, "off by {}", error);
                }
            }
            prop_assert_eq!(out.of(0), out.of(3));
            prop_assert_eq!(first.get_or_insert(out.clone()), &out);
        }
    }

    /// A mask is a ban of all that it leaves out.
    #[test]
    fn a_mask_forbids_what_it_leaves_out(vocabulary in 3..100_usize, seed: u64, words in 1..5_usize) {
        let logits = numbers(seed, vocabulary);
        let mask: Vec<u32> = (0..words).map(|i| CounterRng::new(seed, 1, 2, 3).bits(i as u32) as u32 | 1).collect();
        let left_out: Vec<u32> = (0..vocabulary as u32).filter(|id| !is_allowed(&mask, *id)).collect();
        let rng = CounterRng::new(seed, 0, 0, 0);
        let ways = [
            SamplingMethod::Greedy,
            SamplingMethod::TopK { count: 5 },
            SamplingMethod::Score { token: 2 },
            SamplingMethod::Choices { first: 0, tokens: 3, count: 3 },
            SamplingMethod::Sample { temperature: 0.8, top_k: 3, top_p: 0.9, rng },
        ];
        let tokens = [&[0, 1, 2], &left_out[..]].concat();
        let masked = |method| RowSampling { mask_words: words as u32, ..RowSampling::new(method) };
        let banned = |method| RowSampling { first_banned: 3, banned: left_out.len() as u32, ..RowSampling::new(method) };
        let with = |rows: Vec<RowSampling>| SamplingMetadata { rows, tokens: tokens.clone(), masks: mask.clone() };
        for mut cpu in devices() {
            let ours = pick_from(&mut cpu, &logits.repeat(5), vocabulary, &with(ways.map(masked).to_vec()));
            let theirs = pick_from(&mut cpu, &logits.repeat(5), vocabulary, &with(ways.map(banned).to_vec()));
            prop_assert_eq!(&ours, &theirs);
            prop_assert!(is_allowed(&mask, ours.of(0)[0].id));
        }
    }

    #[test]
    fn banned_tokens_keep_their_mass(vocabulary in 3..100_usize, seed: u64) {
        let logits = numbers(seed, vocabulary);
        let exact = log_probabilities(&logits);
        let ranked = ranked(&logits);
        let ways = [
            SamplingMethod::Greedy,
            SamplingMethod::TopK { count: 2 },
            SamplingMethod::Choices { first: 0, tokens: 3, count: 3 },
            SamplingMethod::Sample { temperature: 0.01, top_k: 0, top_p: 1.0, rng: CounterRng::new(seed, 0, 0, 0) },
        ];
        let sampling = SamplingMetadata { rows: ways.map(|method| RowSampling { banned: 1, ..RowSampling::new(method) }).to_vec(),
            tokens: ranked[..3].to_vec(),
            ..SamplingMetadata::default()
        };
        for mut cpu in devices() {
            let out = pick_from(&mut cpu, &logits.repeat(4), vocabulary, &sampling);
            for index in 0..3 {
                for (token, &id) in out.of(index).iter().zip(&ranked[1..]) {
                    prop_assert_eq!(token.id, id);
                    prop_assert!((f64::from(token.logprob) - exact[id as usize]).abs() < 1e-6);
                }
            }
            prop_assert_eq!([out.of(1).len(), out.of(2).len()], [2, 2]);
            prop_assert_ne!(out.of(3)[0].id, ranked[0]);
        }
    }
}

#[test]
fn rows_without_numbers_are_told() {
    let mut logits = numbers(1, 4 * 5);
    logits[2] = f32::NAN;
    logits[5] = f32::INFINITY;
    let mut asked = sampling(&[
        SamplingMethod::TopK { count: 3 },
        SamplingMethod::Greedy,
        SamplingMethod::Greedy,
        SamplingMethod::Greedy,
    ]);
    asked.tokens = (0..5).collect();
    asked.rows[2] = RowSampling { banned: 5, ..RowSampling::new(SamplingMethod::Greedy) };
    // A unit matrix would spread NaN over its row in any case; the last row has none.
    for mut cpu in devices() {
        let out = pick_from(&mut cpu, &logits, 5, &asked);
        assert_eq!(out.ends, [1, 2, 3, 4]);
        assert!(out.tokens[..3].iter().all(|token| token.id == 0 && token.logprob.is_nan()));
        assert!(out.tokens[3].logprob.is_finite());
    }
}

#[test]
fn rows_are_picked_alike_in_any_batch() {
    let (rows, width, vocabulary) = (300, 24, 40_000);
    let (x, w) = (numbers(1, rows * width), numbers(2, vocabulary * width));
    let rng = |row: usize| CounterRng::new(3, row as u64, 0, 0);
    let sample =
        |row| SamplingMethod::Sample { temperature: 0.7, top_k: 0, top_p: 0.99, rng: rng(row) };
    let all = sampling(&(0..rows).map(sample).collect::<Vec<_>>());
    for precision in [Precision::F32, Precision::Int8] {
        let head = linear(&w, width, None, precision);
        let mut cpu = Cpu::default();
        let together = cpu.sample(&tensor(&x, width), &head, 3.0, &all, None).unwrap();
        for row in [0, 11, 12, 208, 209, 299] {
            let one = SamplingMetadata { rows: vec![all.rows[row]], ..SamplingMetadata::default() };
            let x = tensor(&x[row * width..][..width], width);
            let alone = cpu.sample(&x, &head, 3.0, &one, None).unwrap();
            assert_eq!(together.of(row), &alone.tokens[..]);
        }
    }
}
