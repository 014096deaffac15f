//! Exponential and the activations made of it, with the same bits on every instruction set.
//!
//! The polynomials are minimax fits (Remez) of what the comments say, made for this file.

use crate::backend::Activation;
use proofmill_gemm::Simd;

/// Added to a number below 2^22 it leaves the nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts.
const LN2_HIGH: f32 = std::f32::consts::LN_2;
const LN2_LOW: f32 = -1.904_654_3e-9;

/// `(e^r - 1 - r) / r^2` for `|r| <= ln 2 / 2`; error 3e-9 of `e^r`.
const EXP: [f32; 5] = [0.5, 0.166_665_18, 0.041_666_202, 0.008_368_953, 0.001_395_061_6];

/// `(tanh x / x - 1) / x^2` in `x^2` for `|x| <= 0.65`; error 6e-9 of `tanh x / x`.
const TANH: [f32; 5] = [-0.333_332_63, 0.133_308_99, -0.053_692_97, 0.020_483_32, -0.005_528_637];
/// Up to where [`TANH`] is used.
const TANH_SMALL: f32 = 0.65;

/// `e^(t^2) erfc(t) / u` in `u = 1 / (1 + ERFC_SLOPE t)` for `t >= 0`; error 7e-9.
const ERFC: [f32; 10] = [
    0.197_466_73,
    0.197_463_72,
    0.185_263_93,
    0.163_141_68,
    0.112_598_6,
    0.147_088_97,
    -0.097_197_43,
    0.231_537_77,
    -0.179_382_31,
    0.042_018_33,
];
const ERFC_SLOPE: f32 = 0.35;

/// `e^x` to 1.5 ulp; 0 below -86.99, infinite above 88.73, NaN for NaN.
#[inline(always)]
pub(super) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let x = s.max(s.splat(-87.5), s.min(s.splat(89.0), x));
    let shifted = s.mul_add(x, s.splat(LOG2_E), s.splat(ROUND));
    let n = s.sub(shifted, s.splat(ROUND));
    let r = s.mul_add(n, s.splat(-LN2_HIGH), x);
    let r = s.mul_add(n, s.splat(-LN2_LOW), r);
    let power = s.add(s.splat(1.0), s.mul_add(s.mul(r, r), polynomial(s, &EXP, r), r));
    s.mul(s.mul(power, s.half_power(shifted)), s.splat(2.0))
}

/// `activation(x)`.
#[inline(always)]
pub(super) fn activate<S: Simd>(s: S, activation: Activation, x: S::F) -> S::F {
    match activation {
        Activation::None => x,
        Activation::Relu => s.max(s.splat(0.0), x),
        Activation::Gelu => gelu(s, x),
        Activation::GeluTanh => gelu_tanh(s, x),
        Activation::Silu => logistic(s, x, x),
        Activation::Tanh => tanh(s, x),
    }
}

/// `x / (1 + e^-y)`.
#[inline(always)]
fn logistic<S: Simd>(s: S, x: S::F, y: S::F) -> S::F {
    let below = s.add(s.splat(1.0), exp(s, s.sub(s.splat(0.0), y)));
    s.div(x, below)
}

/// `x Φ(x)`; error below 3e-7 of `|x|`.
#[inline(always)]
fn gelu<S: Simd>(s: S, x: S::F) -> S::F {
    let t = s.mul(magnitude(s, x), s.splat(std::f32::consts::FRAC_1_SQRT_2));
    let u = s.div(s.splat(1.0), s.mul_add(t, s.splat(ERFC_SLOPE), s.splat(1.0)));
    let square = s.mul(s.mul(x, x), s.splat(-0.5));
    let tail = s.mul(s.mul(u, polynomial(s, &ERFC, u)), exp(s, square));
    let tail = s.mul(tail, s.splat(0.5));
    let phi = s.where_less(x, s.splat(0.0), tail, s.sub(s.splat(1.0), tail));
    s.mul(x, phi)
}

/// `x (1 + tanh y) / 2 = x / (1 + e^-2y)` with `y = sqrt(2 / π) (x + 0.044715 x^3)`.
#[inline(always)]
fn gelu_tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let inner = s.mul_add(s.mul(x, x), s.splat(0.044_715), s.splat(1.0));
    let twice = s.mul(s.mul(x, inner), s.splat(1.595_769));
    logistic(s, x, twice)
}

/// Error below 3e-7 of the result.
#[inline(always)]
fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let square = s.mul(x, x);
    let small = s.mul_add(s.mul(x, square), polynomial(s, &TANH, square), x);
    let size = magnitude(s, x);
    let t = exp(s, s.mul(size, s.splat(-2.0)));
    let one = s.splat(1.0);
    let large = s.div(s.sub(one, t), s.add(one, t));
    let large = s.where_less(x, s.splat(0.0), s.sub(s.splat(0.0), large), large);
    s.where_less(size, s.splat(TANH_SMALL), small, large)
}

#[inline(always)]
fn magnitude<S: Simd>(s: S, x: S::F) -> S::F {
    s.max(s.sub(s.splat(0.0), x), x)
}

#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, coefficients: &[f32; N], x: S::F) -> S::F {
    let mut sum = s.splat(coefficients[N - 1]);
    for &coefficient in coefficients[..N - 1].iter().rev() {
        sum = s.mul_add(sum, x, s.splat(coefficient));
    }
    sum
}
