//! Which instructions to use: chosen at run time, here and nowhere else.

#[cfg(target_arch = "x86_64")]
use super::avx2::{Avx2, Pairs, Vnni};
use super::lanes::Simd;
use super::portable::Portable;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
    /// AVX2, FMA and AVX-VNNI.
    AvxVnni,
    /// AVX2 and FMA.
    Avx2,
    Portable,
}

/// An instruction set that the processor has.
#[derive(Clone, Copy, Debug)]
pub struct Level(Isa);

/// Work that is compiled once per instruction set. `run` must be `#[inline(always)]`.
pub trait SimdKernel {
    type Output;
    /// Does the work.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

impl Isa {
    /// All, the fastest first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::AvxVnni, Self::Avx2, Self::Portable];

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
            Self::AvxVnni => is_x86_feature_detected!("avxvnni") && Self::Avx2.is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::AvxVnni | Self::Avx2 => false,
            Self::Portable => true,
        }
    }
}

impl Level {
    /// The fastest.
    pub fn best() -> Self {
        Isa::ALL.into_iter().find_map(Self::of).unwrap_or(Self(Isa::Portable))
    }

    /// The set, if the processor has it.
    pub fn of(isa: Isa) -> Option<Self> {
        isa.is_available().then_some(Self(isa))
    }

    pub fn isa(self) -> Isa {
        self.0
    }

    #[expect(unsafe_code, reason = "a Level is only made of a set that the processor has")]
    pub fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Level` is only made of a set that the processor has.
            Isa::Avx512 => unsafe { avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Level` is only made of a set that the processor has.
            Isa::AvxVnni => unsafe { avx_vnni(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Level` is only made of a set that the processor has.
            Isa::Avx2 => unsafe { avx2(kernel) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 | Isa::AvxVnni | Isa::Avx2 => kernel.run(Portable),
            Isa::Portable => kernel.run(Portable),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the attribute names the instructions that the token stands for")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
fn avx512<K: SimdKernel>(kernel: K) -> K::Output {
    // SAFETY: the attribute above names the instructions that the token stands for.
    kernel.run(unsafe { super::avx512::Avx512::new() })
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the attribute names the instructions that the token stands for")]
#[target_feature(enable = "avx2,fma,avxvnni")]
fn avx_vnni<K: SimdKernel>(kernel: K) -> K::Output {
    // SAFETY: the attribute above names the instructions that the token stands for.
    kernel.run(unsafe { Avx2::<Vnni>::new() })
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the attribute names the instructions that the token stands for")]
#[target_feature(enable = "avx2,fma")]
fn avx2<K: SimdKernel>(kernel: K) -> K::Output {
    // SAFETY: the attribute above names the instructions that the token stands for.
    kernel.run(unsafe { Avx2::<Pairs>::new() })
}

/// [`Isa::AvxVnni`] with the one instruction that it adds in the form of AVX-512; none where that is not there either.
#[cfg(all(test, target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "a Level of AVX-512 is only made where the processor has it")]
pub fn avx_vnni_as_avx512<K: SimdKernel>(kernel: K) -> Option<K::Output> {
    #[target_feature(enable = "avx2,fma,avx512vnni,avx512vl")]
    fn run<K: SimdKernel>(kernel: K) -> K::Output {
        // SAFETY: the attribute above names the instructions that the token stands for.
        kernel.run(unsafe { Avx2::<super::avx2::Vnni512>::new() })
    }
    // SAFETY: a `Level` of AVX-512 is only made where the processor has it, and AVX2 with it.
    Level::of(Isa::Avx512).map(|_| unsafe { run(kernel) })
}
