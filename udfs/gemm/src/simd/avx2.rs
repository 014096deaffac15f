//! AVX2 with FMA: two registers per vector. Bytes are multiplied in one of two ways: by AVX2 alone, or by AVX-VNNI.
#![expect(
    unsafe_code,
    reason = "intrinsics. A value of Avx2 is made only where the processor has the instructions, those of its \
              Dot included; loads and stores go to references to arrays that hold all registers they touch"
)]

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::lanes::{LANES, Simd};

/// How four neighbouring products of bytes are added to a sum of 32 bits, eight sums at a time.
pub(super) trait Dot: Copy {
    /// See [`Simd::BYTE_OFFSET`].
    const BYTE_OFFSET: i32;

    /// # Safety
    ///
    /// The processor must have AVX2 and the instructions of this way.
    unsafe fn dot(sums: __m256i, bytes: __m256i, weights: __m256i) -> __m256i;
}

/// By AVX2: products of neighbours are added in 16 bits, which is exact while both sides are in -127..=127.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

/// By AVX-VNNI.
#[derive(Clone, Copy)]
pub(super) struct Vnni;

/// By the form that AVX-512 has of the same instruction: for tests of [`Vnni`] where only that is at hand.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(super) struct Vnni512;

impl Dot for Pairs {
    const BYTE_OFFSET: i32 = 0;

    #[inline(always)]
    unsafe fn dot(sums: __m256i, bytes: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: the caller has seen that the processor has the instruction.
        unsafe {
            // One side must be unsigned: the signs of the bytes go to the weights.
            let products =
                _mm256_maddubs_epi16(_mm256_abs_epi8(bytes), _mm256_sign_epi8(weights, bytes));
            _mm256_add_epi32(sums, _mm256_madd_epi16(products, _mm256_set1_epi16(1)))
        }
    }
}

impl Dot for Vnni {
    const BYTE_OFFSET: i32 = 128;

    #[inline(always)]
    unsafe fn dot(sums: __m256i, bytes: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: the caller has seen that the processor has the instruction.
        unsafe { _mm256_dpbusd_avx_epi32(sums, bytes, weights) }
    }
}

#[cfg(test)]
impl Dot for Vnni512 {
    const BYTE_OFFSET: i32 = 128;

    #[inline(always)]
    unsafe fn dot(sums: __m256i, bytes: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: the caller has seen that the processor has the instruction.
        unsafe { _mm256_dpbusd_epi32(sums, bytes, weights) }
    }
}

/// Made by [`Avx2::new`].
#[derive(Clone, Copy)]
pub(super) struct Avx2<D>(PhantomData<D>);

impl<D: Dot> Avx2<D> {
    /// # Safety
    ///
    /// The processor must have AVX2, FMA and the instructions of `D`.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

/// The same intrinsic on both halves.
macro_rules! halves {
    ($intrinsic:ident, $($x:expr),+) => {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { [$intrinsic($($x[0]),+), $intrinsic($($x[1]),+)] }
    };
}

impl<D: Dot> Simd for Avx2<D> {
    type F = [__m256; 2];
    type Dots = [__m256i; 2];
    type Weights = [__m256i; 2];
    const WIDE: bool = false;
    const BYTE_OFFSET: i32 = D::BYTE_OFFSET;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))] }
    }

    #[inline(always)]
    fn load_halves(self, from: &[u16; LANES]) -> Self::F {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe {
            [0, 8].map(|first| {
                let eight = _mm_loadu_si128(from.as_ptr().add(first).cast());
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(eight)))
            })
        }
    }

    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), x[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), x[1]);
        }
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_add_ps, a, b)
    }

    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_sub_ps, a, b)
    }

    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_mul_ps, a, b)
    }

    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_div_ps, a, b)
    }

    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        halves!(_mm256_fmadd_ps, a, b, c)
    }

    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_max_ps, a, b)
    }

    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_min_ps, a, b)
    }

    #[inline(always)]
    fn where_less(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        let less = [0, 1].map(|i| unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a[i], b[i]) });
        halves!(_mm256_blendv_ps, no, yes, less)
    }

    #[inline(always)]
    fn half_power(self, shifted: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        shifted.map(|shifted| unsafe {
            let bits = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(126));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(bits))
        })
    }

    #[inline(always)]
    fn to_bytes(self, x: Self::F) -> [u8; LANES] {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe {
            let [low, high] = x.map(|x| _mm256_cvtps_epi32(x));
            // Packing works within halves of a register: put the quarters back in order.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
            let packed = _mm_packs_epi16(
                _mm256_castsi256_si128(words),
                _mm256_extracti128_si256::<1>(words),
            );
            let mut bytes = [0; LANES];
            // Adding 128 to a byte of two's complement turns its highest bit.
            let shifted = _mm_xor_si128(packed, _mm_set1_epi8(D::BYTE_OFFSET as i8));
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), shifted);
            bytes
        }
    }

    #[inline(always)]
    fn interleave(self, rows: [&[f32; LANES]; 4], stride: usize, to: &mut [f32]) {
        assert!(to.len() >= (LANES - 1) * stride + 4, "no room for four rows");
        let to = to.as_mut_ptr();
        for first in [0, 8] {
            // SAFETY: the assertion has shown that there is room for all rows; the processor has the instructions.
            unsafe {
                let a = _mm256_loadu_ps(rows[0].as_ptr().add(first));
                let b = _mm256_loadu_ps(rows[1].as_ptr().add(first));
                let c = _mm256_loadu_ps(rows[2].as_ptr().add(first));
                let d = _mm256_loadu_ps(rows[3].as_ptr().add(first));
                let low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
                let high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
                let low_two = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
                let high_two = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
                let places = [
                    _mm256_unpacklo_pd(low, low_two),
                    _mm256_unpackhi_pd(low, low_two),
                    _mm256_unpacklo_pd(high, high_two),
                    _mm256_unpackhi_pd(high, high_two),
                ];
                // Each half holds a place and the one four later.
                for (i, x) in (first..).zip(places) {
                    let x = _mm256_castpd_ps(x);
                    _mm_storeu_ps(to.add(i * stride), _mm256_castps256_ps128(x));
                    _mm_storeu_ps(to.add((i + 4) * stride), _mm256_extractf128_ps::<1>(x));
                }
            }
        }
    }

    #[inline(always)]
    fn no_dots(self) -> Self::Dots {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { [_mm256_setzero_si256(); 2] }
    }

    #[inline(always)]
    fn load_weights(self, from: &[i8; 4 * LANES]) -> Self::Weights {
        let from = from.as_ptr();
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())] }
    }

    #[inline(always)]
    fn dot(self, sums: Self::Dots, bytes: [u8; 4], weights: Self::Weights) -> Self::Dots {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe {
            let bytes = _mm256_set1_epi32(i32::from_le_bytes(bytes));
            [D::dot(sums[0], bytes, weights[0]), D::dot(sums[1], bytes, weights[1])]
        }
    }

    #[inline(always)]
    fn dots(self, sums: Self::Dots) -> [i32; LANES] {
        let mut out = [0; LANES];
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe {
            _mm256_storeu_si256(out.as_mut_ptr().cast(), sums[0]);
            _mm256_storeu_si256(out.as_mut_ptr().add(8).cast(), sums[1]);
        }
        out
    }
}
