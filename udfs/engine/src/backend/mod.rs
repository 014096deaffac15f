//! What computes: one trait of fused operations on packed rows, and the plain data they take.

pub(crate) mod check;
mod device;
mod layout;
mod parts;
mod picks;

pub use crate::request::DeviceError;
pub use device::{Backend, CacheShape, MatrixSource, Placement, Precision};
pub use layout::{BLOCK_SLOTS, BlockRef, Input, Layout, Segment};
pub use parts::{
    Activation, Append, Attend, Embedding, Linear, Norm, NormKind, Pool, RelativeBias, Rope, Write,
};
pub use picks::{How, Pick, Picked, Picks, Token};
