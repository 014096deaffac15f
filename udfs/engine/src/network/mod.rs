//! Transformers as data: which parts a network has. Families say how a checkpoint becomes one;
//! [`forward`] says what it computes.

mod parts;

pub use parts::{Attention, Block, Cross, Feed, Head, Heads, Network, Pooling, Reader, Stack};
