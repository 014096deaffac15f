//! Exact maximum inner product search: vectors in, ordinals and scores out.
//!
//! Reading order: `flaw` (what is a vector), `bound` (what rounding one to bytes may take), `block` (many of them,
//! packed), `nearest` (the best entries of many blocks for many queries).

mod block;
mod bound;
mod flaw;
mod nearest;

#[cfg(test)]
mod tests;

pub use block::Block;
pub use flaw::{DIMENSIONS_MAX, NORM_MAX, VectorFlaw, check};
pub use nearest::{Nearest, NearestError};
