//! The kernels by name, and their source.

use crate::backend::Activation;

/// A kernel of `udfs/kernels`. Its name there is [`Kernel::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// `rows.cu`: tokens to rows.
    Embed,
    /// `rows.cu`: layer and RMS norm.
    Norm,
    /// `rows.cu`: gated activation.
    Gate,
    /// `rows.cu`: chosen rows.
    Gather,
    /// `rows.cu`: one row per segment.
    Pool,
    /// `rows.cu`: f32 to bf16.
    Narrow,
    /// `rows.cu`: bf16 to f32.
    Widen,
    /// `rows.cu`: bf16 to bytes with a scale per row.
    Quantise,
    /// `pack.cu`: weights of a checkpoint to the order in which they are read.
    PackBf16,
    /// `pack.cu`: the same, to 8 bits and a scale per output.
    PackInt8,
    /// `pack.cu`: the same, to f32.
    PackF32,
    /// `pack.cu`: the same, to bf16 as cuBLASLt reads it.
    PackPlain,
    /// `gemm.cu`: bf16 weights, many rows.
    GemmWideBf16,
    /// `gemm.cu`: bf16 weights, few rows.
    GemmNarrowBf16,
    /// `gemm.cu`: bf16 weights, some rows.
    GemmMiddleBf16,
    /// `gemm.cu`: 8-bit weights, many rows.
    GemmWideInt8,
    /// `gemm.cu`: 8-bit weights, few rows.
    GemmNarrowInt8,
    /// `gemm.cu`: 8-bit weights, some rows.
    GemmMiddleInt8,
    /// `gemm.cu`: what becomes of sums of slices of bf16 products.
    AddSlicesBf16,
    /// `gemm.cu`: the same, of 8-bit products.
    AddSlicesInt8,
    /// `gemm_plain.cu`: f32 without tensor cores.
    GemmF32,
    /// cuBLASLt, or `gemm_plain.cu` in its place: a product in f32, without what becomes of it.
    Product,
    /// `gemm_plain.cu`: what becomes of such a product.
    Finish,
    /// `cache.cu`: block tables to one slot per key.
    Expand,
    /// `cache.cu`: norms and rotation of queries and keys, keys and values to an f32 cache.
    AppendF32,
    /// `cache.cu`: the same, to a bf16 cache.
    AppendBf16,
    /// `cache.cu`: copies blocks of all layers.
    CopyBlocks,
    /// `attend.cu`: tensor cores, many rows of a segment share its keys; heads of up to 64.
    AttendRows64,
    /// `attend.cu`: the same, heads of up to 128.
    AttendRows128,
    /// `attend.cu`: tensor cores, few rows, warps share the keys; heads of up to 64.
    AttendKeys64,
    /// `attend.cu`: the same, heads of up to 128.
    AttendKeys128,
    /// `attend_plain.cu`: any head over an f32 cache, without tensor cores.
    AttendPlainF32,
    /// `attend_plain.cu`: any head over a bf16 cache, without tensor cores.
    AttendPlainBf16,
    /// `pick.cu`: largest logit, log-sum-exp, bans, chosen logits.
    PickStats,
    /// `pick.cu`: the likeliest tokens of a row.
    PickTop,
    /// `pick.cu`: top-k and top-p cuts and the draw.
    PickSample,
    /// `pick.cu`: the tokens with which the next step goes on.
    PickIds,
    /// `nearest.cu`: the nearest of a block of vectors by inner product.
    NearestBlock,
    /// `nearest.cu`: the nearest of all blocks.
    NearestMerge,
}

/// The text that all sources begin with: types and wrappers, each with its twin for the emulator.
pub const COMMON: &str = include_str!("../../../kernels/common.cu");

/// The sources in order, each with its name; [`COMMON`] stands before them.
pub const SOURCES: [(&str, &str); 9] = [
    ("rows.cu", include_str!("../../../kernels/rows.cu")),
    ("pack.cu", include_str!("../../../kernels/pack.cu")),
    ("gemm.cu", include_str!("../../../kernels/gemm.cu")),
    ("gemm_plain.cu", include_str!("../../../kernels/gemm_plain.cu")),
    ("cache.cu", include_str!("../../../kernels/cache.cu")),
    ("attend.cu", include_str!("../../../kernels/attend.cu")),
    ("attend_plain.cu", include_str!("../../../kernels/attend_plain.cu")),
    ("pick.cu", include_str!("../../../kernels/pick.cu")),
    ("nearest.cu", include_str!("../../../kernels/nearest.cu")),
];

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 39] = [
        Self::Embed,
        Self::Norm,
        Self::Gate,
        Self::Gather,
        Self::Pool,
        Self::Narrow,
        Self::Widen,
        Self::Quantise,
        Self::PackBf16,
        Self::PackInt8,
        Self::PackF32,
        Self::PackPlain,
        Self::GemmWideBf16,
        Self::GemmNarrowBf16,
        Self::GemmMiddleBf16,
        Self::GemmWideInt8,
        Self::GemmNarrowInt8,
        Self::GemmMiddleInt8,
        Self::AddSlicesBf16,
        Self::AddSlicesInt8,
        Self::GemmF32,
        Self::Product,
        Self::Finish,
        Self::Expand,
        Self::AppendF32,
        Self::AppendBf16,
        Self::CopyBlocks,
        Self::AttendRows64,
        Self::AttendRows128,
        Self::AttendKeys64,
        Self::AttendKeys128,
        Self::AttendPlainF32,
        Self::AttendPlainBf16,
        Self::PickStats,
        Self::PickTop,
        Self::PickSample,
        Self::PickIds,
        Self::NearestBlock,
        Self::NearestMerge,
    ];

    /// Its name in the source and in the compiled module.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::Norm => "norm_rows",
            Self::Gate => "gate",
            Self::Gather => "gather",
            Self::Pool => "pool",
            Self::Narrow => "narrow",
            Self::Widen => "widen",
            Self::Quantise => "quantise",
            Self::PackBf16 => "pack_bf16",
            Self::PackInt8 => "pack_int8",
            Self::PackF32 => "pack_f32",
            Self::PackPlain => "pack_plain",
            Self::GemmWideBf16 => "gemm_wide_bf16",
            Self::GemmNarrowBf16 => "gemm_narrow_bf16",
            Self::GemmMiddleBf16 => "gemm_middle_bf16",
            Self::GemmWideInt8 => "gemm_wide_int8",
            Self::GemmNarrowInt8 => "gemm_narrow_int8",
            Self::GemmMiddleInt8 => "gemm_middle_int8",
            Self::AddSlicesBf16 => "add_slices_bf16",
            Self::AddSlicesInt8 => "add_slices_int8",
            Self::GemmF32 => "gemm_f32",
            Self::Product => "product",
            Self::Finish => "finish",
            Self::Expand => "expand",
            Self::AppendF32 => "append_f32",
            Self::AppendBf16 => "append_bf16",
            Self::CopyBlocks => "copy_blocks",
            Self::AttendRows64 => "attend_rows_64",
            Self::AttendRows128 => "attend_rows_128",
            Self::AttendKeys64 => "attend_keys_64",
            Self::AttendKeys128 => "attend_keys_128",
            Self::AttendPlainF32 => "attend_plain_f32",
            Self::AttendPlainBf16 => "attend_plain_bf16",
            Self::PickStats => "pick_stats",
            Self::PickTop => "pick_top",
            Self::PickSample => "pick_sample",
            Self::PickIds => "pick_ids",
            Self::NearestBlock => "nearest_block",
            Self::NearestMerge => "nearest_merge",
        }
    }
}

/// The number by which kernels know an activation.
pub(super) fn activation_code(activation: Activation) -> usize {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Gelu => 2,
        Activation::GeluTanh => 3,
        Activation::Silu => 4,
        Activation::Tanh => 5,
    }
}
