//! Transformers as data: which parts a network has, and the one pass over them. Families say how a
//! checkpoint becomes a network.

mod forward;
mod parts;
mod workspace;

pub use parts::{Attention, Block, Cross, Feed, Head, Heads, Network, Pooling, Reader, Stack};
pub use workspace::Workspace;
