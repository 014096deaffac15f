//! Operations on single rows.

use proptest::prelude::*;

use super::given::{assert_close, bits, devices, empty, input, numbers, stored, tensor, vector};
use crate::backend::{
    Activation, Attend, AttentionMetadata, Backend, BlockRef, CacheShape, Embedding, KvWrite,
    LoadWeights, Norm, NormKind, Pool, Precision, Rope,
};
use crate::cpu::Cpu;

const EPS: f32 = 1e-3;

fn normed(kind: NormKind, row: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<f64> {
    let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
    let n = row.len() as f64;
    let mean = if kind == NormKind::Layer { row.iter().sum::<f64>() / n } else { 0.0 };
    let square = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let scale = 1.0 / (square + f64::from(EPS)).sqrt();
    let bias = |i: usize| bias.map_or(0.0, |bias| f64::from(bias[i]));
    row.iter()
        .enumerate()
        .map(|(i, x)| (x - mean) * scale * f64::from(weight[i]) + bias(i))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn norms(rows in 1..6_usize, width in 1..200_usize, seed: u64, layer: bool, biased: bool) {
        let kind = if layer { NormKind::Layer } else { NormKind::Rms };
        let x = numbers(seed, rows * width);
        let (weight, bias) = (numbers(seed ^ 1, width), numbers(seed ^ 2, width));
        let bias = biased.then_some(&bias[..]);
        let norm = Norm::<Cpu> { kind, weight: vector(&weight), bias: bias.map(vector), eps: EPS };
        let wanted: Vec<f64> =
            x.chunks(width).flat_map(|row| normed(kind, row, &weight, bias)).collect();
        let mut first = None;
        for mut cpu in devices() {
            let mut out = empty(rows, width);
            cpu.norm(&tensor(&x, width), &norm, &mut out).unwrap();
            assert_close(out.data(), &wanted, 1e-5);
            prop_assert_eq!(first.get_or_insert(bits(&out)), &bits(&out));
            let mut last = empty(1, width);
            cpu.norm(&tensor(&x[(rows - 1) * width..], width), &norm, &mut last).unwrap();
            prop_assert_eq!(last.row(0), out.row(rows - 1));
        }
    }

    #[test]
    fn gates(rows in 1..4_usize, n in 1..70_usize, seed: u64) {
        let x = numbers(seed, rows * 2 * n);
        let silu = |x: f32| f64::from(x) / (1.0 + (-f64::from(x)).exp());
        let wanted: Vec<f64> = x
            .chunks(2 * n)
            .flat_map(|row| (0..n).map(|i| silu(row[i]) * f64::from(row[n + i])).collect::<Vec<_>>())
            .collect();
        let mut first = None;
        for mut cpu in devices() {
            let mut out = empty(rows, n);
            cpu.glu(&tensor(&x, 2 * n), Activation::Silu, &mut out).unwrap();
            assert_close(out.data(), &wanted, 1e-6);
            prop_assert_eq!(first.get_or_insert(bits(&out)), &bits(&out));
        }
    }

    #[test]
    fn pools(counts in prop::collection::vec(1..6_usize, 1..4), width in 1..70_usize, seed: u64) {
        let rows: usize = counts.iter().sum();
        let x = numbers(seed, rows * width);
        let mut metadata = AttentionMetadata::default();
        counts.iter().for_each(|&count| metadata.push(count, []));
        for pool in [Pool::Mean, Pool::First, Pool::Last] {
            for normalize in [false, true] {
                let mut wanted = Vec::new();
                let mut left = &x[..];
                for &count in &counts {
                    let (own, rest) = left.split_at(count * width);
                    left = rest;
                    let at = |row: usize, i: usize| f64::from(own[row * width + i]);
                    let row: Vec<f64> = (0..width)
                        .map(|i| match pool {
                            Pool::First => at(0, i),
                            Pool::Last => at(count - 1, i),
                            Pool::Mean => (0..count).map(|r| at(r, i)).sum::<f64>() / count as f64,
                        })
                        .collect();
                    let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
                    let by = if normalize { length } else { 1.0 };
                    wanted.extend(row.iter().map(|x| x / by));
                }
                let mut first = None;
                for mut cpu in devices() {
                    let mut out = empty(counts.len(), width);
                    cpu.pool(&tensor(&x, width), &metadata, pool, normalize, &mut out).unwrap();
                    assert_close(out.data(), &wanted, 1e-5);
                    prop_assert_eq!(first.get_or_insert(bits(&out)), &bits(&out));
                }
            }
        }
    }
}

#[test]
fn a_pooled_row_of_zeros_stays() {
    let mut metadata = AttentionMetadata::default();
    metadata.push(2, []);
    let mut out = empty(1, 3);
    Cpu::default().pool(&tensor(&[0.0; 6], 3), &metadata, Pool::Mean, true, &mut out).unwrap();
    assert_eq!(out.data(), [0.0; 3]);
}

#[test]
fn embeddings_are_summed() {
    let (tokens, places, kind) = (numbers(1, 40), numbers(2, 28), numbers(3, 4));
    let mut cpu = Cpu::default();
    let embedding = Embedding::<Cpu> {
        tokens: cpu.table(&stored(&tokens, 4)).unwrap(),
        scale: 2.0,
        positions: Some((cpu.table(&stored(&places, 4)).unwrap(), 2)),
        kind: Some(vector(&kind)),
        width: 4,
    };
    let mut out = empty(3, 4);
    cpu.embed(&input(&[9, 0, 9], &[0, 1, 4], &[]), &embedding, &mut out).unwrap();
    for (row, (token, place)) in [(9, 2), (0, 3), (9, 6)].into_iter().enumerate() {
        for i in 0..4 {
            let wanted = 2.0 * tokens[token * 4 + i] + places[place * 4 + i] + kind[i];
            assert_eq!(out.row(row)[i], wanted);
        }
    }
}

#[test]
fn rows_are_gathered_and_downloaded() {
    let mut cpu = Cpu::default();
    let x = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2);
    let mut out = empty(4, 2);
    cpu.index_select(&x, &[2, 0, 2], &mut out).unwrap();
    let mut all = vec![7.0];
    cpu.download(&out, &mut all).unwrap();
    assert_eq!(all, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
}

#[test]
fn queries_and_keys_are_normalised_and_rotated() {
    const DIM: usize = 6;
    let weights = [numbers(1, DIM), numbers(2, DIM)];
    let norms = weights.each_ref().map(|weight| Norm::<Cpu> {
        kind: NormKind::Rms,
        weight: vector(weight),
        bias: None,
        eps: EPS,
    });
    let angles = numbers(3, 5 * DIM / 2);
    let rope = Rope::<Cpu> {
        cos: vector(&angles.iter().map(|x| x.cos()).collect::<Vec<_>>()),
        sin: vector(&angles.iter().map(|x| x.sin()).collect::<Vec<_>>()),
        positions: 5,
    };
    let x = numbers(4, 2 * 4 * DIM);
    let exact = |head: &[f32], weight: &[f32], position: usize| -> Vec<f64> {
        let x = normed(NormKind::Rms, head, weight, None);
        (0..DIM)
            .map(|i| {
                let angle = f64::from(angles[position * DIM / 2 + i % (DIM / 2)]);
                let sign = if i < DIM / 2 { -1.0 } else { 1.0 };
                x[i] * angle.cos() + sign * x[(i + DIM / 2) % DIM] * angle.sin()
            })
            .collect()
    };
    for mut cpu in devices() {
        let shape = CacheShape {
            layers: 1,
            blocks: 3,
            kv_heads: 1,
            head_dim: DIM,
            precision: Precision::F32,
        };
        let mut cache = cpu.cache(shape).unwrap();
        let kv_write = KvWrite {
            heads: 2,
            kv_heads: 1,
            head_dim: DIM,
            norms: Some((&norms[0], &norms[1])),
            rope: Some(&rope),
        };
        let mut qkv = tensor(&x, 4 * DIM);
        cpu.write_kv(&mut qkv, &input(&[], &[4, 1], &[20, 40]), &kv_write, &mut cache, 0).unwrap();
        for (row, position) in [(0, 4), (1, 1)] {
            for head in 0..2 {
                let from = &x[(row * 4 + head) * DIM..][..DIM];
                let q = &qkv.row(row)[head * DIM..][..DIM];
                assert_close(q, &exact(from, &weights[0], position), 1e-6);
            }
            let k = &x[(row * 4 + 2) * DIM..][..DIM];
            assert_close(&qkv.row(row)[2 * DIM..][..DIM], &exact(k, &weights[1], position), 1e-6);
        }
        // With one key, attention gives its value.
        let mut metadata = AttentionMetadata::default();
        metadata.push(2, [BlockRef { block: 1, used: 5 }]);
        let attend =
            Attend { heads: 2, kv_heads: 1, head_dim: DIM, scale: 1e4, causal: false, bias: None };
        let k = tensor(&[&qkv.row(0)[2 * DIM..3 * DIM], &[0.0; DIM]].concat().repeat(2), 2 * DIM);
        let mut out = empty(2, 2 * DIM);
        cpu.attend(&k, &metadata, &attend, &cache, 0, &mut out).unwrap();
        assert_eq!(out.row(0)[..DIM], x[3 * DIM..4 * DIM]);
    }
}
