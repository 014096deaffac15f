//! Sums and maxima in an order that the length alone decides: lane `i` takes the numbers at
//! `i`, `i + 16` and so on (in four strands), and strands and lanes are added as a fixed tree.

use crate::simd::{LANES, Simd};

/// Vectors that are summed side by side, because an addition takes several cycles.
const STRANDS: usize = 4;

/// `tail`, filled up.
#[inline(always)]
pub fn padded(tail: &[f32], fill: f32) -> [f32; LANES] {
    let mut all = [fill; LANES];
    all[..tail.len()].copy_from_slice(tail);
    all
}

/// The sum of `x`.
#[inline(always)]
pub fn sum<S: Simd>(s: S, x: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); STRANDS];
    let (whole, rest) = x.as_chunks::<{ STRANDS * LANES }>();
    for group in whole {
        for (sum, x) in sums.iter_mut().zip(group.as_chunks::<LANES>().0) {
            *sum = s.add(*sum, s.load(x));
        }
    }
    let (vectors, tail) = rest.as_chunks::<LANES>();
    for (sum, x) in sums.iter_mut().zip(vectors) {
        *sum = s.add(*sum, s.load(x));
    }
    if !tail.is_empty() {
        sums[0] = s.add(sums[0], s.load(&padded(tail, 0.0)));
    }
    strands(s, sums)
}

/// The sum of `(x - center)^2`.
#[inline(always)]
pub fn squares<S: Simd>(s: S, x: &[f32], center: f32) -> f32 {
    let mut sums = [s.splat(0.0); STRANDS];
    let center_lanes = s.splat(center);
    let (whole, rest) = x.as_chunks::<{ STRANDS * LANES }>();
    for group in whole {
        for (sum, x) in sums.iter_mut().zip(group.as_chunks::<LANES>().0) {
            let x = s.sub(s.load(x), center_lanes);
            *sum = s.mul_add(x, x, *sum);
        }
    }
    let (vectors, tail) = rest.as_chunks::<LANES>();
    for (sum, x) in sums.iter_mut().zip(vectors) {
        let x = s.sub(s.load(x), center_lanes);
        *sum = s.mul_add(x, x, *sum);
    }
    if !tail.is_empty() {
        let x = s.sub(s.load(&padded(tail, center)), center_lanes);
        sums[0] = s.mul_add(x, x, sums[0]);
    }
    strands(s, sums)
}

#[inline(always)]
fn strands<S: Simd>(s: S, [a, b, c, d]: [S::F; STRANDS]) -> f32 {
    lanes(s, s.add(s.add(a, b), s.add(c, d)))
}

/// The sum of the lanes.
#[inline(always)]
pub fn lanes<S: Simd>(s: S, x: S::F) -> f32 {
    let mut all = [0.0; LANES];
    s.store(x, &mut all);
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            all[i] += all[i + width];
        }
        width /= 2;
    }
    all[0]
}

/// The largest of `x`; `-inf` if it is empty. NaN are passed over.
#[inline(always)]
pub fn largest<S: Simd>(s: S, x: &[f32]) -> f32 {
    let mut best = [s.splat(f32::NEG_INFINITY); STRANDS];
    let (whole, rest) = x.as_chunks::<{ STRANDS * LANES }>();
    for group in whole {
        for (best, x) in best.iter_mut().zip(group.as_chunks::<LANES>().0) {
            *best = s.max(s.load(x), *best);
        }
    }
    let (vectors, tail) = rest.as_chunks::<LANES>();
    for (best, x) in best.iter_mut().zip(vectors) {
        *best = s.max(s.load(x), *best);
    }
    let [a, b, c, d] = best;
    let mut all = [0.0; LANES];
    s.store(s.max(s.max(a, b), s.max(c, d)), &mut all);
    all.iter().chain(tail).fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best })
}
