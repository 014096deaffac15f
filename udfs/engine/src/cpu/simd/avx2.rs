//! AVX2 with FMA: two registers per vector, four per vector of dot products.
#![expect(
    unsafe_code,
    reason = "intrinsics. A value of Avx2 is made only where the processor has the instructions; \
              loads and stores go to references to arrays that hold all registers they touch"
)]

use std::arch::x86_64::*;

use super::lanes::{LANES, Simd};

/// Made by [`Avx2::new`].
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// # Safety
    ///
    /// The processor must have AVX2 and FMA.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// The same intrinsic on both halves.
macro_rules! halves {
    ($intrinsic:ident, $($x:expr),+) => {
        unsafe { [$intrinsic($($x[0]),+), $intrinsic($($x[1]),+)] }
    };
}

impl Simd for Avx2 {
    type F = [__m256; 2];
    /// Register `i` holds columns `4 * i..4 * i + 4`, each as two sums that are yet to be added.
    type Dots = [__m256i; 4];
    const WIDE: bool = false;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))] }
    }

    #[inline(always)]
    fn load_halves(self, from: &[u16; LANES]) -> Self::F {
        unsafe {
            [0, 8].map(|first| {
                let eight = _mm_loadu_si128(from.as_ptr().add(first).cast());
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(eight)))
            })
        }
    }

    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
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
        let less = [0, 1].map(|i| unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a[i], b[i]) });
        halves!(_mm256_blendv_ps, no, yes, less)
    }

    #[inline(always)]
    fn half_power(self, shifted: Self::F) -> Self::F {
        shifted.map(|shifted| unsafe {
            let bits = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(126));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(bits))
        })
    }

    #[inline(always)]
    fn to_bytes(self, x: Self::F) -> [u8; LANES] {
        unsafe {
            let [low, high] =
                x.map(|x| _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(128)));
            // Packing works within halves of a register: put the quarters back in order.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
            let packed = _mm_packus_epi16(
                _mm256_castsi256_si128(words),
                _mm256_extracti128_si256::<1>(words),
            );
            let mut bytes = [0; LANES];
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), packed);
            bytes
        }
    }

    #[inline(always)]
    fn no_dots(self) -> Self::Dots {
        unsafe { [_mm256_setzero_si256(); 4] }
    }

    #[inline(always)]
    fn dot(self, sums: Self::Dots, bytes: [u8; 4], weights: &[i8; 4 * LANES]) -> Self::Dots {
        unsafe {
            // Widened to 16 bits: products of bytes in pairs could overflow them.
            let bytes = _mm256_cvtepu8_epi16(_mm_set1_epi32(i32::from_le_bytes(bytes)));
            let mut sums = sums;
            for (i, sum) in sums.iter_mut().enumerate() {
                let weights = _mm_loadu_si128(weights.as_ptr().add(16 * i).cast());
                let products = _mm256_madd_epi16(bytes, _mm256_cvtepi8_epi16(weights));
                *sum = _mm256_add_epi32(*sum, products);
            }
            sums
        }
    }

    #[inline(always)]
    fn dots(self, sums: Self::Dots) -> [i32; LANES] {
        let mut out = [0; LANES];
        for (sum, out) in sums.iter().zip(out.as_chunks_mut::<4>().0) {
            let mut halves = [0_i32; 8];
            unsafe { _mm256_storeu_si256(halves.as_mut_ptr().cast(), *sum) };
            *out = std::array::from_fn(|i| halves[2 * i] + halves[2 * i + 1]);
        }
        out
    }
}
