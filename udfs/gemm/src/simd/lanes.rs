//! The operations that kernels are written in.

/// Lanes of a vector, whatever the instruction set.
pub const LANES: usize = 16;

/// A right to use an instruction set, and its operations. A value exists only where the processor
/// has the instructions. All operations round as IEEE 754 says, so all sets give the same bits.
///
/// Kernels that take a `Simd` must be `#[inline(always)]` all the way up to [`super::SimdKernel::run`]:
/// only what is inlined there is compiled for the instruction set.
pub trait Simd: Copy {
    /// Sixteen f32.
    type F: Copy;
    /// Sixteen sums of products of bytes.
    type Dots: Copy;
    /// Four weights, of a byte each, for each of sixteen sums.
    type Weights: Copy;
    /// Whether there are 32 registers of 16 lanes: how large tiles can be.
    const WIDE: bool;
    /// What is added to bytes on the left of a product: 128 where they must be unsigned, or 0.
    const BYTE_OFFSET: i32;

    fn splat(self, x: f32) -> Self::F;
    fn load(self, from: &[f32; LANES]) -> Self::F;
    /// Sixteen bfloat16, by their bits.
    fn load_halves(self, from: &[u16; LANES]) -> Self::F;
    fn store(self, x: Self::F, to: &mut [f32; LANES]);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a` where it is larger, else `b` (also where either is NaN).
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a` where it is smaller, else `b` (also where either is NaN).
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// `yes` where `a < b`, else `no`.
    fn where_less(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F;
    /// For a number `1.5 * 2^23 + n`, that is `n` in its low bits: `2^(n - 1)`, and 0 for -126.
    fn half_power(self, shifted: Self::F) -> Self::F;
    /// `x` in -127..=127, rounded to the nearest integer (ties to even), plus [`Simd::BYTE_OFFSET`].
    fn to_bytes(self, x: Self::F) -> [u8; LANES];

    /// No products yet.
    fn no_dots(self) -> Self::Dots;
    /// Writes the numbers of four rows that are in the same place side by side: those of place `i` to
    /// `to[i * stride..][..4]`.
    fn interleave(self, rows: [&[f32; LANES]; 4], stride: usize, to: &mut [f32]);

    /// Weights for [`Simd::dot`]: four for each lane.
    fn load_weights(self, from: &[i8; 4 * LANES]) -> Self::Weights;
    /// Adds to lane `i` the product of `bytes` and its four weights, exactly, if weights are in -127..=127.
    fn dot(self, sums: Self::Dots, bytes: [u8; 4], weights: Self::Weights) -> Self::Dots;
    fn dots(self, sums: Self::Dots) -> [i32; LANES];
}
