//! Products with weights.

use proptest::prelude::*;

use super::given::{assert_close, bits, devices, empty, linear, numbers, refusal, stored, tensor};
use crate::backend::{
    Activation, Backend, Linear, LoadWeights, MatrixSource, Placement, Precision, Write,
};
use crate::cpu::{Cpu, Tensor};

const ACTIVATIONS: [Activation; 6] = [
    Activation::None,
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Tanh,
];

fn product(cpu: &mut Cpu, x: &Tensor, linear: &Linear<Cpu>) -> Tensor {
    let mut out = empty(x.rows(), linear.outputs);
    cpu.linear(x, linear, Activation::None, Write::Store, &mut out).unwrap();
    out
}

/// `x W^T + bias` in f64.
fn exact(x: &[f32], weights: &[f32], k: usize, bias: &[f32]) -> Vec<f64> {
    let dot = |x: &[f32], w: &[f32]| -> f64 {
        x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum()
    };
    let row = |x| {
        let outputs = weights.chunks(k).zip(bias);
        outputs.map(move |(w, &bias)| dot(x, w) + f64::from(bias)).collect::<Vec<_>>()
    };
    x.chunks(k).flat_map(row).collect()
}

/// What int8 makes of a row: integers and what one is worth.
fn rounded(row: &[f32]) -> (Vec<i64>, f32) {
    let size = row.iter().fold(0.0_f32, |size, x| size.max(x.abs()));
    let inverse = if size > 0.0 { 127.0 / size } else { 0.0 };
    (row.iter().map(|x| (x * inverse).round_ties_even() as i64).collect(), size / 127.0)
}

/// `x W^T` with rows and weights rounded to integers.
fn exact_int8(x: &[f32], weights: &[f32], k: usize) -> Vec<f64> {
    let weights: Vec<_> = weights.chunks(k).map(rounded).collect();
    let row = |x| {
        let (x, scale) = rounded(x);
        let outputs = weights.iter().map(move |(w, w_scale)| {
            let sum: i64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
            sum as f64 * f64::from(scale) * f64::from(*w_scale)
        });
        outputs.collect::<Vec<_>>()
    };
    x.chunks(k).flat_map(row).collect()
}

/// Rows, outputs, inputs: around the edges of tiles, panels and fours.
fn sizes() -> impl Strategy<Value = (usize, usize, usize)> {
    (1..40_usize, 1..100_usize, 1..70_usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn f32_is_right_and_the_same_everywhere((m, n, k) in sizes(), seed: u64) {
        let (x, w) = (numbers(seed, m * k), numbers(seed ^ 1, n * k));
        let bias = numbers(seed ^ 2, n);
        let linear = linear(&w, k, Some(&bias), Precision::F32);
        let wanted = exact(&x, &w, k, &bias);
        let mut first = None;
        for mut cpu in devices() {
            let out = product(&mut cpu, &tensor(&x, k), &linear);
            assert_close(out.data(), &wanted, 1e-5);
            prop_assert_eq!(first.get_or_insert(bits(&out)), &bits(&out), "{:?}", cpu.isa());
        }
    }

    #[test]
    fn int8_is_exact_but_for_rounding((m, n, k) in sizes(), seed: u64) {
        let (x, w) = (numbers(seed, m * k), numbers(seed ^ 1, n * k));
        let linear = linear(&w, k, None, Precision::Int8);
        let wanted = exact_int8(&x, &w, k);
        let mut first = None;
        for mut cpu in devices() {
            let out = product(&mut cpu, &tensor(&x, k), &linear);
            assert_close(out.data(), &wanted, 1e-6);
            prop_assert_eq!(first.get_or_insert(bits(&out)), &bits(&out), "{:?}", cpu.isa());
        }
    }

    #[test]
    fn a_row_is_the_same_in_any_batch(
        (m, n, k) in sizes(),
        seed: u64,
        output in prop::collection::vec(any::<prop::sample::Index>(), 1..30),
    ) {
        let (x, w) = (numbers(seed, m * k), numbers(seed ^ 1, n * k));
        let output: Vec<usize> = output.iter().map(|index| index.index(m)).collect();
        let some: Vec<f32> = output.iter().flat_map(|&r| x[r * k..][..k].to_vec()).collect();
        for precision in [Precision::F32, Precision::Int8] {
            let linear = linear(&w, k, None, precision);
            for mut cpu in devices() {
                let all = product(&mut cpu, &tensor(&x, k), &linear);
                let part = product(&mut cpu, &tensor(&some, k), &linear);
                for (place, &row) in output.iter().enumerate() {
                    prop_assert_eq!(part.row(place), all.row(row));
                }
            }
        }
    }

    #[test]
    fn what_happens_to_sums((m, n, k) in sizes(), seed: u64, which in 0..6_usize) {
        let (x, w) = (numbers(seed, m * k), numbers(seed ^ 1, n * k));
        let before = numbers(seed ^ 2, m * n);
        for precision in [Precision::F32, Precision::Int8] {
            let linear = linear(&w, k, None, precision);
            let mut first = None;
            for mut cpu in devices() {
                let x = tensor(&x, k);
                let plain = product(&mut cpu, &x, &linear);
                let mut activated = empty(m, n);
                cpu.linear(&x, &linear, ACTIVATIONS[which], Write::Store, &mut activated).unwrap();
                let mut added = tensor(&before, n);
                cpu.linear(&x, &linear, ACTIVATIONS[which], Write::Add, &mut added).unwrap();
                let sums: Vec<f32> =
                    before.iter().zip(activated.data()).map(|(a, b)| a + b).collect();
                prop_assert_eq!(added.data(), &sums[..]);
                if which == 1 {
                    let relu: Vec<f32> = plain.data().iter().map(|x| x.max(0.0)).collect();
                    prop_assert_eq!(activated.data(), &relu[..]);
                }
                prop_assert_eq!(first.get_or_insert(bits(&added)), &bits(&added));
            }
        }
    }
}

#[test]
fn large_products_are_cut_into_blocks() {
    let (m, n, k) = (500, 40, 1100);
    let (x, w) = (numbers(1, m * k), numbers(2, n * k));
    for precision in [Precision::F32, Precision::Int8] {
        let linear = linear(&w, k, None, precision);
        let mut first = None;
        for mut cpu in devices() {
            let all = product(&mut cpu, &tensor(&x, k), &linear);
            for row in [0, 95, 96, 97, 383, 384, 499] {
                let one = product(&mut cpu, &tensor(&x[row * k..][..k], k), &linear);
                assert_eq!(one.data(), all.row(row), "{row}");
            }
            assert_eq!(first.get_or_insert(bits(&all)), &bits(&all));
        }
    }
}

#[test]
fn blocks_of_a_matrix_follow_each_other() {
    let (k, x) = (7, numbers(1, 21));
    let (a, b) = (numbers(2, 33 * k), numbers(3, 5 * k));
    let transposed: Vec<f32> = (0..5 * k).map(|i| b[i % 5 * k + i / 5]).collect();
    let blocks = vec![
        Placement::OutputsByInputs(stored(&a, k)),
        Placement::InputsByOutputs(stored(&transposed, 5)),
    ];
    let joined: Vec<f32> = a.iter().chain(&b).copied().collect();
    for precision in [Precision::F32, Precision::Int8] {
        let mut cpu = Cpu::default();
        let source = MatrixSource { blocks: blocks.clone() };
        let matrix = cpu.matrix(&source, precision).unwrap();
        let fused = Linear { matrix, bias: None, outputs: 38, inputs: k };
        let wanted = product(&mut cpu, &tensor(&x, k), &linear(&joined, k, None, precision));
        assert_eq!(bits(&product(&mut cpu, &tensor(&x, k), &fused)), bits(&wanted));
    }
}

#[test]
fn the_largest_bytes_do_not_overflow() {
    let k = 4096;
    let linear = linear(&vec![1.0; 3 * k], k, None, Precision::Int8);
    for mut cpu in devices() {
        let out = product(&mut cpu, &tensor(&vec![-1.0; 2 * k], k), &linear);
        assert_close(out.data(), &[-4096.0; 6], 1e-6);
    }
}

#[test]
fn rows_of_nothing_and_of_no_numbers() {
    let mut weights = numbers(1, 3 * 20);
    weights[20..40].fill(0.0);
    for precision in [Precision::F32, Precision::Int8] {
        let linear = linear(&weights, 20, None, precision);
        for mut cpu in devices() {
            for spoilt in [f32::NAN, f32::INFINITY] {
                let mut x = numbers(2, 60);
                x[..20].fill(0.0);
                x[30] = spoilt;
                let out = product(&mut cpu, &tensor(&x, 20), &linear);
                assert_eq!(out.row(0), [0.0; 3]);
                assert!(!out.row(1)[0].is_finite());
                assert!(out.row(2).iter().all(|x| x.is_finite()));
                assert_eq!(out.row(2)[1], 0.0);
            }
        }
    }
}

#[test]
fn matrices_that_cannot_be_packed_are_refused() {
    let pack = |blocks, precision| Cpu::default().matrix(&MatrixSource { blocks }, precision);
    let block = |n, k| Placement::OutputsByInputs(stored(&vec![0.0; n * k], k));
    assert!(refusal(pack(vec![], Precision::F32)).contains("same number of inputs"));
    let uneven = vec![block(2, 3), block(2, 4)];
    assert!(refusal(pack(uneven, Precision::F32)).contains("same number of inputs"));
    let long = vec![block(1, 70_000)];
    assert!(refusal(pack(long, Precision::Int8)).contains("use f32"));
}
