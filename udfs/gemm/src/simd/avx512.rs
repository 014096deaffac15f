//! AVX-512 with VNNI: one register per vector.
#![expect(
    unsafe_code,
    reason = "intrinsics. A value of Avx512 is made only where the processor has the instructions; \
              loads and stores go to references to arrays of the register's size"
)]

use std::arch::x86_64::*;

use super::lanes::{LANES, Simd};

/// Made by [`Avx512::new`].
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// # Safety
    ///
    /// The processor must have AVX-512 F, BW, DQ, VL and VNNI.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

impl Simd for Avx512 {
    type F = __m512;
    type Dots = __m512i;
    type Weights = __m512i;
    const WIDE: bool = true;
    const BYTE_OFFSET: i32 = 128;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn load_halves(self, from: &[u16; LANES]) -> Self::F {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn where_less(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), no, yes) }
    }

    #[inline(always)]
    fn half_power(self, shifted: Self::F) -> Self::F {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe {
            let bits = _mm512_add_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(126));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(bits))
        }
    }

    #[inline(always)]
    fn to_bytes(self, x: Self::F) -> [u8; LANES] {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe {
            let shifted = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(128));
            let mut bytes = [0; LANES];
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(shifted));
            bytes
        }
    }

    #[inline(always)]
    fn interleave(self, rows: [&[f32; LANES]; 4], stride: usize, to: &mut [f32]) {
        assert!(to.len() >= (LANES - 1) * stride + 4, "no room for four rows");
        let to = to.as_mut_ptr();
        // SAFETY: the assertion has shown that there is room for all rows; the processor has the instructions.
        unsafe {
            let a = _mm512_loadu_ps(rows[0].as_ptr());
            let b = _mm512_loadu_ps(rows[1].as_ptr());
            let c = _mm512_loadu_ps(rows[2].as_ptr());
            let d = _mm512_loadu_ps(rows[3].as_ptr());
            let halves = [
                [_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d)],
                [_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d)],
            ];
            // Quarter `q` of the register for `i` holds place `4 * q + i`.
            for (half, [ab, cd]) in halves.into_iter().enumerate() {
                let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
                let pair = [_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd)];
                for (i, x) in (2 * half..).zip(pair) {
                    let x = _mm512_castpd_ps(x);
                    _mm_storeu_ps(to.add(i * stride), _mm512_castps512_ps128(x));
                    _mm_storeu_ps(to.add((4 + i) * stride), _mm512_extractf32x4_ps::<1>(x));
                    _mm_storeu_ps(to.add((8 + i) * stride), _mm512_extractf32x4_ps::<2>(x));
                    _mm_storeu_ps(to.add((12 + i) * stride), _mm512_extractf32x4_ps::<3>(x));
                }
            }
        }
    }

    #[inline(always)]
    fn no_dots(self) -> Self::Dots {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load_weights(self, from: &[i8; 4 * LANES]) -> Self::Weights {
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn dot(self, sums: Self::Dots, bytes: [u8; 4], weights: Self::Weights) -> Self::Dots {
        // SAFETY: a value of this type is made only where the processor has these instructions.
        unsafe {
            let bytes = _mm512_set1_epi32(i32::from_le_bytes(bytes));
            _mm512_dpbusd_epi32(sums, bytes, weights)
        }
    }

    #[inline(always)]
    fn dots(self, sums: Self::Dots) -> [i32; LANES] {
        let mut out = [0; LANES];
        // SAFETY: as everywhere in this file the processor has the instructions; the arrays hold all that is touched.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), sums) };
        out
    }
}
