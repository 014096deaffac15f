//! Which instructions to use: chosen at run time, here and nowhere else.

use super::lanes::Simd;
use super::portable::Portable;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
    /// AVX2 and FMA.
    Avx2,
    Portable,
}

/// An instruction set that the processor has.
#[derive(Clone, Copy)]
pub(crate) struct Level(Isa);

/// Work that is compiled once per instruction set. `run` must be `#[inline(always)]`.
pub(crate) trait SimdKernel {
    type Output;
    /// Does the work.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

impl Isa {
    /// All, the fastest first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
                    && is_x86_feature_detected!("fma")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => false,
            Self::Portable => true,
        }
    }
}

impl Level {
    /// The fastest.
    pub(crate) fn best() -> Self {
        Isa::ALL.into_iter().find_map(Self::of).unwrap_or(Self(Isa::Portable))
    }

    /// The set, if the processor has it.
    pub(crate) fn of(isa: Isa) -> Option<Self> {
        isa.is_available().then_some(Self(isa))
    }

    pub(crate) fn isa(self) -> Isa {
        self.0
    }

    #[expect(unsafe_code, reason = "a Level is only made of a set that the processor has")]
    pub(crate) fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2(kernel) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 | Isa::Avx2 => kernel.run(Portable),
            Isa::Portable => kernel.run(Portable),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the attribute names the instructions that the token stands for")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
fn avx512<K: SimdKernel>(kernel: K) -> K::Output {
    kernel.run(unsafe { super::avx512::Avx512::new() })
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the attribute names the instructions that the token stands for")]
#[target_feature(enable = "avx2,fma")]
fn avx2<K: SimdKernel>(kernel: K) -> K::Output {
    kernel.run(unsafe { super::avx2::Avx2::new() })
}
