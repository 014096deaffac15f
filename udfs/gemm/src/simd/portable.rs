//! Plain Rust: for processors without the other sets, and the definition of what they compute.

use super::lanes::{LANES, Simd};

/// Always available.
#[derive(Clone, Copy)]
pub(super) struct Portable;

#[inline(always)]
fn lanes(f: impl Fn(usize) -> f32) -> [f32; LANES] {
    std::array::from_fn(f)
}

impl Simd for Portable {
    type F = [f32; LANES];
    type Dots = [i32; LANES];
    type Weights = [[i8; 4]; LANES];
    const WIDE: bool = false;
    const BYTE_OFFSET: i32 = 0;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        *from
    }

    #[inline(always)]
    fn load_halves(self, from: &[u16; LANES]) -> Self::F {
        from.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }

    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        *to = x;
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        lanes(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        lanes(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        lanes(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        lanes(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        lanes(|i| a[i].mul_add(b[i], c[i]))
    }

    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        lanes(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        lanes(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn where_less(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F {
        lanes(|i| if a[i] < b[i] { yes[i] } else { no[i] })
    }

    #[inline(always)]
    fn half_power(self, shifted: Self::F) -> Self::F {
        lanes(|i| f32::from_bits(shifted[i].to_bits().wrapping_add(126) << 23))
    }

    #[inline(always)]
    fn to_bytes(self, x: Self::F) -> [u8; LANES] {
        std::array::from_fn(|i| x[i].round_ties_even() as i8 as u8)
    }

    #[inline(always)]
    fn interleave(self, rows: [&[f32; LANES]; 4], stride: usize, to: &mut [f32]) {
        for (i, to) in to.chunks_mut(stride).take(LANES).enumerate() {
            to[..4].copy_from_slice(&rows.map(|row| row[i]));
        }
    }

    #[inline(always)]
    fn no_dots(self) -> Self::Dots {
        [0; LANES]
    }

    #[inline(always)]
    fn load_weights(self, from: &[i8; 4 * LANES]) -> Self::Weights {
        let from = from.as_chunks().0;
        std::array::from_fn(|i| from[i])
    }

    #[inline(always)]
    fn dot(self, sums: Self::Dots, bytes: [u8; 4], weights: Self::Weights) -> Self::Dots {
        std::array::from_fn(|i| {
            let product = |j: usize| i32::from(bytes[j] as i8) * i32::from(weights[i][j]);
            sums[i] + product(0) + product(1) + product(2) + product(3)
        })
    }

    #[inline(always)]
    fn dots(self, sums: Self::Dots) -> [i32; LANES] {
        sums
    }
}
