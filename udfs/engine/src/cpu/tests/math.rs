//! Accuracy of functions.

use super::given::devices;
use crate::backend::Activation;
use crate::cpu::math;
use proofmill_gemm::{LANES, Simd, SimdKernel};

/// Applies a function to all numbers, a multiple of 16.
struct Map<'a> {
    x: &'a mut [f32],
    /// None is the exponential.
    activation: Option<Activation>,
}

impl SimdKernel for Map<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for x in self.x.as_chunks_mut::<LANES>().0 {
            let y = match self.activation {
                None => math::exp(s, s.load(x)),
                Some(activation) => math::activate(s, activation, s.load(x)),
            };
            s.store(y, x);
        }
    }
}

/// The function of `x` on every instruction set, after checking that all agree.
fn map(x: &[f32], activation: Option<Activation>) -> Vec<f32> {
    let mut results = devices().into_iter().map(|cpu| {
        let mut x = x.to_vec();
        cpu.level().run(Map { x: &mut x, activation });
        x
    });
    let first = results.next().unwrap();
    for other in results {
        assert!(first.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
    first
}

fn range(from: f32, to: f32) -> Vec<f32> {
    const COUNT: usize = 100_000 / LANES * LANES;
    (0..COUNT).map(|i| from + (to - from) * i as f32 / COUNT as f32).collect()
}

/// The distribution function of the normal distribution: by its series, and far out by a continued
/// fraction.
fn phi(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() > 4.0 {
        let tail =
            density / (1..=100).rev().fold(x.abs(), |below, n| x.abs() + f64::from(n) / below);
        return if x < 0.0 { tail } else { 1.0 - tail };
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= x * x / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + density * sum
}

/// A function in f64.
type Exact<'a> = &'a dyn Fn(f64) -> f64;

#[test]
fn exp_is_within_1_5_ulp() {
    for x in [range(-86.9, 88.7), range(-1.0, 1.0)] {
        let mut worst = 0.0_f64;
        for (x, y) in x.iter().zip(map(&x, None)) {
            let exact = f64::from(*x).exp();
            let ulp =
                f64::from(f32::from_bits((exact as f32).to_bits() + 1)) - f64::from(exact as f32);
            worst = worst.max((f64::from(y) - exact).abs() / ulp);
        }
        assert!(worst < 1.5, "{worst} ulp");
    }
}

#[test]
fn exp_of_what_does_not_fit() {
    let mut x = [0.0; LANES];
    x[..6].copy_from_slice(&[f32::NEG_INFINITY, -87.1, 88.8, f32::INFINITY, f32::NAN, -0.0]);
    let y = map(&x, None);
    assert_eq!(y[..4], [0.0, 0.0, f32::INFINITY, f32::INFINITY]);
    assert!(y[4].is_nan());
    assert_eq!(y[5], 1.0);
}

#[test]
fn activations_are_accurate() {
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let inner = |x: f64| (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    let cases: [(Activation, Exact<'_>, f64); 6] = [
        (Activation::None, &|x| x, 0.0),
        (Activation::Relu, &|x| x.max(0.0), 0.0),
        (Activation::Gelu, &|x| x * phi(x), 3e-7),
        (Activation::GeluTanh, &|x| x * 0.5 * (1.0 + inner(x).tanh()), 4e-7),
        (Activation::Silu, &|x| x * logistic(x), 4e-7),
        (Activation::Tanh, &f64::tanh, 3e-7),
    ];
    for (activation, exact, tolerance) in cases {
        for x in [range(-12.0, 12.0), range(-1e-3, 1e-3)] {
            for (x, y) in x.iter().zip(map(&x, Some(activation))) {
                let error = (f64::from(y) - exact(f64::from(*x))).abs();
                let size = f64::from(x.abs());
                assert!(error <= tolerance * size, "{activation:?}({x}) = {y}, off by {error}");
            }
        }
    }
}

#[test]
fn not_a_number_stays_so() {
    for activation in [
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Tanh,
    ] {
        assert!(map(&[f32::NAN; LANES], Some(activation)).iter().all(|x| x.is_nan()));
    }
}
