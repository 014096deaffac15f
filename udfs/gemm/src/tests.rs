//! Products against loops that anyone can check, bit for bit, on every instruction set.

use proptest::prelude::*;

use crate::tile::Store;
use crate::{Int8Panels, Isa, Level, Multiplier, Operand, Panels, Scratch, Sums};

fn levels() -> Vec<Level> {
    Isa::ALL.into_iter().filter_map(Level::of).collect()
}

/// Numbers in -1..1 (SplitMix64).
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// `[rows, columns]` turned over.
fn turned(matrix: &[f32], columns: usize) -> Vec<f32> {
    let rows = matrix.len() / columns;
    (0..columns).flat_map(|j| (0..rows).map(move |i| matrix[i * columns + j])).collect()
}

/// `out + a b`, one fused multiply-add after the other.
fn in_order(a: &[f32], b: &[f32], k: usize, n: usize, out: &[f32]) -> Vec<f32> {
    let sum = |i: usize, j: usize| {
        (0..k).fold(out[i * n + j], |sum, p| a[i * k + p].mul_add(b[p * n + j], sum))
    };
    (0..out.len() / n).flat_map(|i| (0..n).map(move |j| sum(i, j))).collect()
}

/// One product in all layouts of its operands, on all levels.
fn check(m: usize, k: usize, n: usize, seed: u64) {
    let (a, b) = (numbers(seed, m * k), numbers(seed ^ 1, k * n));
    let (a_turned, b_turned) = (turned(&a, k), turned(&b, n));
    let before = numbers(seed ^ 2, m * n);
    let from_zero = bits(&in_order(&a, &b, k, n, &vec![0.0; m * n]));
    let from_out = bits(&in_order(&a, &b, k, n, &before));
    for level in levels() {
        let mut multiplier = Multiplier::new(level);
        for a in [Operand::new(&a, m, k), Operand::new(&a_turned, k, m).transposed()] {
            for b in [Operand::new(&b, k, n), Operand::new(&b_turned, n, k).transposed()] {
                let mut out = before.clone();
                multiplier.multiply(a, b, Sums::FromOut, &mut out).unwrap();
                assert_eq!(bits(&out), from_out, "{m} {k} {n} {:?}", level.isa());
                multiplier.multiply(a, b, Sums::FromZero, &mut out).unwrap();
                assert_eq!(bits(&out), from_zero, "{m} {k} {n} {:?}", level.isa());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn products_are_sums_in_order(m in 1..40_usize, k in 1..70_usize, n in 1..100_usize, seed: u64) {
        check(m, k, n, seed);
    }

    /// Each row and output rounded to bytes of its largest, and their exact sum.
    #[test]
    fn products_of_bytes_are_exact(
        m in 1..20_usize,
        k in 1..70_usize,
        n in 1..100_usize,
        large: bool,
        seed: u64,
    ) {
        // With the largest bytes of both signs everywhere, pairs of products are as large as they can be.
        let number = |x: f32| if large { x.signum() } else { x };
        let x: Vec<f32> = numbers(seed, m * k).into_iter().map(number).collect();
        let w: Vec<f32> = numbers(seed ^ 1, n * k).into_iter().map(number).collect();
        let mut panels = Int8Panels::new(n, k).unwrap();
        w.chunks(k).enumerate().for_each(|(i, output)| panels.set(i, output));
        let rounded = |row: &[f32]| {
            let largest = row.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
            let bytes = row.iter().map(|x| (x * (127.0 / largest)).round_ties_even() as i32);
            (bytes.collect::<Vec<_>>(), largest / 127.0)
        };
        let w: Vec<_> = w.chunks(k).map(rounded).collect();
        let wanted: Vec<f32> = x
            .chunks(k)
            .map(rounded)
            .flat_map(|(x, scale)| {
                let sum = move |w: &[i32]| x.iter().zip(w).map(|(x, w)| x * w).sum::<i32>();
                w.iter().map(move |(w, worth)| sum(w) as f32 * (scale * worth))
            })
            .collect();
        for level in levels() {
            let mut out = vec![f32::NAN; m * n];
            panels.multiply(level, &x, 0..n, Store, &mut out, &mut Scratch::default()).unwrap();
            prop_assert_eq!(bits(&out), bits(&wanted), "{:?}", level.isa());
        }
        #[cfg(target_arch = "x86_64")]
        {
            let mut out = vec![f32::NAN; m * n];
            let scratch = &mut Scratch::default();
            let kernel = panels.kernel(&x, 0..n, Store, &mut out, scratch).unwrap();
            if crate::simd::avx_vnni_as_avx512(kernel).is_some() {
                prop_assert_eq!(bits(&out), bits(&wanted), "AVX-VNNI in the form of AVX-512");
            }
        }
    }

    #[test]
    fn inner_products_round_each_product(
        m in 1..30_usize,
        k in 1..70_usize,
        n in 1..100_usize,
        first in 0..4_usize,
        seed: u64,
    ) {
        let (x, vectors) = (numbers(seed, m * k), numbers(seed ^ 1, n * k));
        let mut panels = Panels::new(n, k).unwrap();
        vectors.chunks(k).enumerate().for_each(|(i, vector)| panels.set(i, vector));
        let columns = (first * 32).min(n / 32 * 32)..n;
        let wanted: Vec<f32> = x
            .chunks(k)
            .flat_map(|x| {
                let vectors = vectors.chunks(k).skip(columns.start);
                vectors.map(|vector| x.iter().zip(vector).fold(0.0, |sum, (x, y)| sum + x * y))
            })
            .collect();
        for level in levels() {
            let mut out = vec![f32::NAN; m * columns.len()];
            let scratch = &mut Scratch::default();
            panels.inner_products(level, &x, columns.clone(), &mut out, scratch).unwrap();
            prop_assert_eq!(bits(&out), bits(&wanted), "{:?}", level.isa());
        }
    }
}

#[test]
fn blocks_of_inputs_and_outputs_do_not_show() {
    for (m, k, n) in [(3, 513, 33), (13, 1200, 5), (2, 40, 1060), (300, 600, 40)] {
        check(m, k, n, 7);
    }
}

#[test]
fn columns_of_a_wider_matrix() {
    let (m, k, n) = (5, 9, 7);
    let (wide, b) = (numbers(3, m * 20), numbers(4, k * n));
    let a: Vec<f32> = wide.chunks(20).flat_map(|row| row[6..6 + k].to_vec()).collect();
    let wanted = in_order(&a, &b, k, n, &vec![0.0; m * n]);
    let mut out = vec![0.0; m * n];
    let a = Operand::with_stride(&wide[6..], m, k, 20);
    let b = Operand::new(&b, k, n);
    Multiplier::default().multiply(a, b, Sums::FromZero, &mut out).unwrap();
    assert_eq!(bits(&out), bits(&wanted));
}

#[test]
fn products_of_nothing() {
    let mut multiplier = Multiplier::default();
    let mut out = [1.0; 6];
    let (a, b) = (Operand::new(&[], 2, 0), Operand::new(&[], 0, 3));
    multiplier.multiply(a, b, Sums::FromOut, &mut out).unwrap();
    assert_eq!(out, [1.0; 6]);
    multiplier.multiply(a, b, Sums::FromZero, &mut out).unwrap();
    assert_eq!(out, [0.0; 6]);
    let (a, b) = (Operand::new(&[], 0, 4), Operand::new(&[1.0; 8], 4, 2));
    multiplier.multiply(a, b, Sums::FromZero, &mut []).unwrap();
}
