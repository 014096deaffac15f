//! Sixteen lanes of f32 on three instruction sets, with the same bits on each.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
mod lanes;
mod portable;

pub use isa::Isa;
pub(super) use isa::{Level, SimdKernel};
pub(super) use lanes::{LANES, Simd};
