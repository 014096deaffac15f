//! The tensors that a pass over a stack needs, allocated once.

use super::parts::Stack;
use crate::backend::{Backend, DeviceError};

/// The tensors of one pass over a stack.
pub struct Workspace<B: Backend> {
    /// The residual stream; after a pass, the stack's result before its final norm.
    pub(super) x: B::Tensor,
    /// Its normalised copy, or the sum that is normalised next.
    pub(super) y: B::Tensor,
    /// `[q | k | v]`.
    pub(super) qkv: B::Tensor,
    /// Queries of cross-attention.
    pub(super) q: B::Tensor,
    pub(super) attended: B::Tensor,
    /// Its selected rows.
    pub(super) attended_selected: B::Tensor,
    /// Inside the feed-forward part.
    pub(super) up: B::Tensor,
    pub(super) gated: B::Tensor,
    /// Selected rows after the final norm.
    pub(super) selected: B::Tensor,
    /// Selected rows after the projection to the width of the head.
    pub(super) projected: B::Tensor,
}

impl<B: Backend> Workspace<B> {
    /// Tensors for passes of up to `rows` rows.
    pub fn new(backend: &B, stack: &Stack<B>, rows: usize) -> Result<Self, DeviceError> {
        let heads = stack.heads;
        let inner = heads.heads * heads.head_dim;
        let gated = stack.blocks.iter().any(|block| block.mlp.gated);
        let up = stack.blocks.iter().map(|block| block.mlp.up.outputs).max().unwrap_or(0);
        let only_if =
            |needed: bool, width: usize| backend.tensor(if needed { rows } else { 0 }, width);
        Ok(Self {
            x: backend.tensor(rows, stack.width)?,
            y: backend.tensor(rows, stack.width)?,
            qkv: backend.tensor(rows, (heads.heads + 2 * heads.kv_heads) * heads.head_dim)?,
            q: only_if(stack.blocks.iter().any(|block| block.cross.is_some()), inner)?,
            attended: backend.tensor(rows, inner)?,
            attended_selected: backend.tensor(rows, inner)?,
            up: backend.tensor(rows, up)?,
            gated: only_if(gated, stack.mlp_width)?,
            selected: backend.tensor(rows, stack.width)?,
            projected: only_if(stack.project_out.is_some(), stack.output_width())?,
        })
    }
}
