//! Sixteen lanes of f32 on four instruction sets, with the same bits on each.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
mod lanes;
mod portable;

#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use isa::avx_vnni_as_avx512;
pub use isa::{Isa, Level, SimdKernel};
pub use lanes::{LANES, Simd};
