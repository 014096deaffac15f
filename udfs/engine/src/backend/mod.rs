//! What a device must be able to do: fused operations on packed rows, and the plain data they take.

pub(crate) mod check;
mod device;
mod metadata;
mod parts;
mod sampling;
mod weights;

pub use crate::request::DeviceError;
pub use device::{Backend, CacheShape};
pub use metadata::{AttentionMetadata, BLOCK_SLOTS, BlockRef, Input, SampledRow, Segment};
pub use parts::{
    Activation, Attend, Embedding, KvWrite, Linear, Norm, NormKind, Pool, RelativeBias, Rope, Write,
};
pub use sampling::{
    RowSampling, SamplerOutput, SamplingMetadata, SamplingMethod, Token, is_allowed,
};
pub use weights::{LoadWeights, MatrixSource, Placement, Precision};
