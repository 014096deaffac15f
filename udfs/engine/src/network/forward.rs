//! What a network computes.

use std::mem;

use super::parts::{
    Attention, Classifier, CrossAttention, LmHead, Mlp, Pooling, Stack, TransformerBlock,
};
use super::workspace::Workspace;
use crate::backend::{
    Activation, Attend, Backend, DeviceError, KvWrite, Norm, Pool, SamplingMetadata, Write,
};

/// Rows of a pass whose results are requested.
#[derive(Clone, Copy, Debug)]
pub enum RequestedRows<'a> {
    All,
    /// These, in this order, some of them perhaps more than once.
    Some {
        rows: &'a [u32],
        /// Rows of the pass.
        of: usize,
    },
}

impl<B: Backend> Stack<B> {
    /// Passes rows through all blocks. The results of those that are `requested`, before the final
    /// norm, stay in `work`; in the last block, nothing after attention is computed for others.
    ///
    /// A causal stack keeps keys and values of each block in a layer of its own, and rows may read
    /// what earlier steps left there; the cross-attention keys and values of
    /// [`Stack::write_cross_kv`] lie in the same cache, and `cross_metadata` tells which rows read which.
    /// Any other stack needs keys within a block only, so that one layer serves all.
    #[expect(clippy::too_many_arguments, reason = "a step is made of so many things")]
    pub fn forward(
        &self,
        backend: &mut B,
        rows: &B::Input,
        metadata: &B::Metadata,
        cache: &mut B::Cache,
        cross_metadata: Option<&B::Metadata>,
        requested: RequestedRows<'_>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        let all = self.blocks.len();
        self.forward_through(all, backend, rows, metadata, cache, cross_metadata, requested, work)
    }

    /// [`Stack::forward`] through the first `depth` blocks; none of them leaves the embedding.
    #[expect(clippy::too_many_arguments, reason = "a step is made of so many things")]
    pub fn forward_through(
        &self,
        depth: usize,
        backend: &mut B,
        rows: &B::Input,
        metadata: &B::Metadata,
        cache: &mut B::Cache,
        cross_metadata: Option<&B::Metadata>,
        requested: RequestedRows<'_>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        self.embed(backend, rows, work)?;
        let mut left = requested;
        for (index, block) in self.blocks.iter().enumerate().take(depth) {
            let layer = if self.causal { index } else { 0 };
            let cross = block.cross.as_ref().zip(cross_metadata);
            let last = index + 1 == depth.min(self.blocks.len());
            // Rows that are requested more often than there are others are selected when they are
            // done.
            let early = match left {
                RequestedRows::Some { rows, of } if last && rows.len() < of => Some(rows),
                RequestedRows::All | RequestedRows::Some { .. } => None,
            };
            let here = early.filter(|rows| cross.is_none() || rows.is_empty());
            self.attend(backend, &block.attention, rows, metadata, cache, layer, here, work)?;
            if early.is_some_and(<[u32]>::is_empty) {
                return Ok(());
            }
            if let Some((cross, cross_metadata)) = cross {
                self.cross(backend, cross, cross_metadata, cache, layer, early, work)?;
            }
            if early.is_some() {
                left = RequestedRows::All;
            }
            self.mlp(backend, &block.mlp, work)?;
        }
        if let RequestedRows::Some { rows, .. } = left {
            backend.index_select(&work.x, rows, &mut work.y)?;
            mem::swap(&mut work.x, &mut work.y);
        }
        Ok(())
    }

    /// Normalises the result of [`Stack::forward`] into the workspace's selected rows.
    pub fn finish(&self, backend: &mut B, work: &mut Workspace<B>) -> Result<(), DeviceError> {
        match &self.final_norm {
            Some(norm) => backend.norm(&work.x, norm, &mut work.selected)?,
            None => mem::swap(&mut work.x, &mut work.selected),
        }
        if let Some(project) = &self.project_out {
            backend.linear(
                &work.selected,
                &project.linear,
                project.activation,
                Write::Store,
                &mut work.projected,
            )?;
            if let Some(norm) = &project.norm {
                backend.norm(&work.projected, norm, &mut work.selected)?;
                mem::swap(&mut work.projected, &mut work.selected);
            }
        }
        Ok(())
    }

    /// The rows requested behind `depth` blocks, as transformers numbers `hidden_states`: behind
    /// the last block after the final norm, behind any other before it.
    pub fn states<'a>(
        &self,
        depth: usize,
        backend: &mut B,
        work: &'a mut Workspace<B>,
    ) -> Result<&'a B::Tensor, DeviceError> {
        if depth >= self.blocks.len() {
            self.finish(backend, work)?;
            return Ok(self.selected(work));
        }
        mem::swap(&mut work.x, &mut work.selected);
        Ok(&work.selected)
    }

    /// The rows that [`Stack::finish`] left.
    pub fn selected<'a>(&self, work: &'a Workspace<B>) -> &'a B::Tensor {
        if self.project_out.is_some() { &work.projected } else { &work.selected }
    }

    /// Width of the rows that [`Stack::finish`] leaves.
    pub fn output_width(&self) -> usize {
        self.project_out.as_ref().map_or(self.width, |project| project.linear.outputs)
    }

    /// Writes the cross-attention keys and values of encoder states to `cache`, for each block of this
    /// decoder.
    pub fn write_cross_kv(
        &self,
        backend: &mut B,
        encoded: &B::Tensor,
        rows: &B::Input,
        cache: &mut B::Cache,
        kv: &mut B::Tensor,
    ) -> Result<(), DeviceError> {
        let kv_write = KvWrite {
            heads: 0,
            kv_heads: self.heads.kv_heads,
            head_dim: self.heads.head_dim,
            norms: None,
            rope: None,
        };
        for (layer, block) in self.blocks.iter().enumerate() {
            if let Some(cross) = &block.cross {
                backend.linear(encoded, &cross.kv, Activation::None, Write::Store, kv)?;
                backend.write_kv(kv, rows, &kv_write, cache, layer)?;
            }
        }
        Ok(())
    }

    fn embed(
        &self,
        backend: &mut B,
        rows: &B::Input,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        backend.embed(rows, &self.embedding, &mut work.x)?;
        if let Some(norm) = &self.embedding_norm {
            backend.norm(&work.x, norm, &mut work.y)?;
            mem::swap(&mut work.x, &mut work.y);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "a step is made of so many things")]
    fn attend(
        &self,
        backend: &mut B,
        part: &Attention<B>,
        rows: &B::Input,
        metadata: &B::Metadata,
        cache: &mut B::Cache,
        layer: usize,
        requested: Option<&[u32]>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        self.before(backend, &part.norm, work)?;
        let input = if self.norm_first { &work.y } else { &work.x };
        backend.linear(input, &part.qkv, Activation::None, Write::Store, &mut work.qkv)?;
        let kv_write = KvWrite {
            heads: self.heads.heads,
            kv_heads: self.heads.kv_heads,
            head_dim: self.heads.head_dim,
            norms: part.qk_norms.as_ref().map(|(q, k)| (q, k)),
            rope: self.rope.as_ref(),
        };
        backend.write_kv(&mut work.qkv, rows, &kv_write, cache, layer)?;
        if requested.is_some_and(<[u32]>::is_empty) {
            return Ok(());
        }
        let attend = Attend { bias: self.relative.as_ref(), ..self.plain_attend(self.causal) };
        backend.attend(&work.qkv, metadata, &attend, cache, layer, &mut work.attended)?;
        select(backend, requested, work)?;
        backend.linear(&work.attended, &part.out, Activation::None, Write::Add, &mut work.x)?;
        self.after(backend, &part.norm, work)
    }

    #[expect(clippy::too_many_arguments, reason = "a step is made of so many things")]
    fn cross(
        &self,
        backend: &mut B,
        part: &CrossAttention<B>,
        cross_metadata: &B::Metadata,
        cache: &B::Cache,
        layer: usize,
        requested: Option<&[u32]>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        self.before(backend, &part.norm, work)?;
        let input = if self.norm_first { &work.y } else { &work.x };
        backend.linear(input, &part.q, Activation::None, Write::Store, &mut work.q)?;
        let attend = self.plain_attend(false);
        backend.attend(&work.q, cross_metadata, &attend, cache, layer, &mut work.attended)?;
        select(backend, requested, work)?;
        backend.linear(&work.attended, &part.out, Activation::None, Write::Add, &mut work.x)?;
        self.after(backend, &part.norm, work)
    }

    fn mlp(
        &self,
        backend: &mut B,
        part: &Mlp<B>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        self.before(backend, &part.norm, work)?;
        let input = if self.norm_first { &work.y } else { &work.x };
        let inside = if part.gated {
            backend.linear(input, &part.up, Activation::None, Write::Store, &mut work.up)?;
            backend.glu(&work.up, part.activation, &mut work.gated)?;
            &work.gated
        } else {
            backend.linear(input, &part.up, part.activation, Write::Store, &mut work.up)?;
            &work.up
        };
        backend.linear(inside, &part.down, Activation::None, Write::Add, &mut work.x)?;
        self.after(backend, &part.norm, work)
    }

    /// Pre-norm: the part reads a normalised copy.
    fn before(
        &self,
        backend: &mut B,
        norm: &Norm<B>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        if self.norm_first { backend.norm(&work.x, norm, &mut work.y) } else { Ok(()) }
    }

    /// Post-norm: the sum is normalised.
    fn after(
        &self,
        backend: &mut B,
        norm: &Norm<B>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        if !self.norm_first {
            backend.norm(&work.x, norm, &mut work.y)?;
            mem::swap(&mut work.x, &mut work.y);
        }
        Ok(())
    }

    fn plain_attend(&self, causal: bool) -> Attend<'_, B> {
        Attend {
            heads: self.heads.heads,
            kv_heads: self.heads.kv_heads,
            head_dim: self.heads.head_dim,
            scale: self.heads.scale,
            causal,
            bias: None,
        }
    }
}

/// Leaves only the rows that are requested: of the residual stream, and of what attention gave.
fn select<B: Backend>(
    backend: &mut B,
    requested: Option<&[u32]>,
    work: &mut Workspace<B>,
) -> Result<(), DeviceError> {
    let Some(rows) = requested else { return Ok(()) };
    backend.index_select(&work.x, rows, &mut work.y)?;
    mem::swap(&mut work.x, &mut work.y);
    backend.index_select(&work.attended, rows, &mut work.attended_selected)?;
    mem::swap(&mut work.attended, &mut work.attended_selected);
    Ok(())
}

impl<B: Backend> LmHead<B> {
    /// Samples the next token after each row, see [`Backend::sample`].
    pub fn sample(
        &self,
        backend: &mut B,
        rows: &B::Tensor,
        sampling: &SamplingMetadata,
        tokens: Option<&mut B::Tokens>,
    ) -> Result<B::Sampled, DeviceError> {
        backend.sample(rows, &self.linear, self.scale, sampling, tokens)
    }
}

impl<B: Backend> Pooling<B> {
    /// One vector per segment of `metadata`; `scratch` and `out` have the network's width.
    pub fn pool(
        &self,
        backend: &mut B,
        rows: &B::Tensor,
        metadata: &B::Metadata,
        scratch: &mut B::Tensor,
        out: &mut B::Tensor,
    ) -> Result<(), DeviceError> {
        match &self.pooler {
            None => backend.pool(rows, metadata, self.pool, self.normalize, out),
            Some(pooler) => {
                backend.pool(rows, metadata, self.pool, self.normalize, scratch)?;
                backend.linear(scratch, pooler, Activation::Tanh, Write::Store, out)
            }
        }
    }
}

impl<B: Backend> Classifier<B> {
    /// One row of outputs per segment of `metadata`; `first` and `dense` have the network's width.
    pub fn classify(
        &self,
        backend: &mut B,
        rows: &B::Tensor,
        metadata: &B::Metadata,
        (first, dense): (&mut B::Tensor, &mut B::Tensor),
        out: &mut B::Tensor,
    ) -> Result<(), DeviceError> {
        backend.pool(rows, metadata, Pool::First, false, first)?;
        backend.linear(first, &self.dense, Activation::Tanh, Write::Store, dense)?;
        backend.linear(dense, &self.out, Activation::None, Write::Store, out)
    }
}

impl<B: Backend> TransformerBlock<B> {
    /// Width of what [`Stack::write_cross_kv`] writes per row and block; 0 without cross-attention.
    pub fn cross_kv_width(&self) -> usize {
        self.cross.as_ref().map_or(0, |cross| cross.kv.outputs)
    }
}
