//! Operations on several threads: the same bits as on one.

use std::sync::Arc;

use proptest::prelude::*;

use super::given::{bits, devices, empty, input, linear, numbers, tensor, vector};
use crate::backend::{
    Activation, Attend, AttentionMetadata, BLOCK_SLOTS, Backend, BlockRef, CacheShape, KvWrite,
    Precision, RelativeBias, Write,
};
use crate::cpu::{Cpu, Team};

/// A device for each instruction set, on each number of threads.
fn teams() -> impl Iterator<Item = Cpu> {
    let sizes = [1, 2, 3, 5].into_iter();
    sizes.flat_map(|threads| {
        let team = Arc::new(Team::of_one(threads).eager());
        devices().into_iter().map(move |cpu| cpu.in_team(Arc::clone(&team)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Many rows are shared by rows, few by outputs.
    #[test]
    fn products((m, n, k) in (1..150_usize, 1..300_usize, 1..40_usize), seed: u64, adds: bool) {
        let (x, w, bias) = (numbers(seed, m * k), numbers(seed ^ 1, n * k), numbers(seed ^ 2, n));
        let before = numbers(seed ^ 3, m * n);
        for precision in [Precision::F32, Precision::Int8] {
            let linear = linear(&w, k, Some(&bias), precision);
            let mut first = None;
            for mut cpu in teams() {
                let mut out = if adds { tensor(&before, n) } else { empty(m, n) };
                let write = if adds { Write::Add } else { Write::Store };
                cpu.linear(&tensor(&x, k), &linear, Activation::Gelu, write, &mut out).unwrap();
                prop_assert_eq!(first.get_or_insert(bits(&out)), &bits(&out));
            }
        }
    }

    #[test]
    fn attention(lengths in prop::collection::vec(1..60_usize, 1..5), causal: bool, seed: u64) {
        const DIM: usize = 20;
        let rows: usize = lengths.iter().sum();
        let (mut metadata, mut positions, mut slots) = (AttentionMetadata::default(), vec![], vec![]);
        let mut blocks = 0;
        for &length in &lengths {
            positions.extend(0..length as u32);
            slots.extend((0..length).map(|i| (blocks * BLOCK_SLOTS + i) as u32));
            let used = (0..length).step_by(BLOCK_SLOTS).map(|at| (length - at).min(BLOCK_SLOTS));
            let refs = (blocks..).zip(used).map(|(block, used)| (block as u32, used as u32));
            metadata.push(length, refs.map(|(block, used)| BlockRef { block, used }));
            blocks += length.div_ceil(BLOCK_SLOTS);
        }
        let weights = vector(&numbers(seed ^ 1, 4 * 7));
        let bias = RelativeBias { weights, reach: 3 };
        let bias = causal.then_some(&bias);
        let attend = Attend { heads: 4, kv_heads: 2, head_dim: DIM, scale: 0.3, causal, bias };
        let kv_write = KvWrite { heads: 4, kv_heads: 2, head_dim: DIM, norms: None, rope: None };
        let precision = if seed % 2 == 0 { Precision::F32 } else { Precision::Int8 };
        let shape = CacheShape { layers: 1, blocks, kv_heads: 2, head_dim: DIM, precision };
        let mut first = None;
        for mut cpu in teams() {
            let mut cache = cpu.cache(shape).unwrap();
            let mut qkv = tensor(&numbers(seed, rows * 8 * DIM), 8 * DIM);
            let input = input(&[], &positions, &slots);
            cpu.write_kv(&mut qkv, &input, &kv_write, &mut cache, 0).unwrap();
            let mut out = empty(rows, 4 * DIM);
            cpu.attend(&qkv, &metadata, &attend, &cache, 0, &mut out).unwrap();
            prop_assert_eq!(first.get_or_insert(bits(&out)), &bits(&out));
        }
    }
}
