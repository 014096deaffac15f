//! Transformers as data: which parts a network has, and the forward pass over them. `architecture` says how
//! a checkpoint becomes a network.

mod forward;
mod parts;
mod workspace;

pub use forward::RequestedRows;
pub use parts::{
    Attention, Classifier, CrossAttention, Heads, LmHead, Mlp, Network, Pooling, Projection, Stack,
    Transformer, TransformerBlock,
};
pub use workspace::Workspace;
