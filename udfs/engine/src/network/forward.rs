//! What a network computes.

use std::mem;

use super::parts::{
    Attention, Classifier, CrossAttention, LmHead, Mlp, Pooling, Stack, TransformerBlock,
};
use super::workspace::Workspace;
use crate::backend::{
    Activation, Attend, Backend, DeviceError, KvWrite, Norm, Pool, SamplerOutput, SamplingMetadata,
    Write,
};

impl<B: Backend> Stack<B> {
    /// Passes rows through all blocks. The result, before the final norm, stays in `work`.
    ///
    /// A causal stack keeps keys and values of each block in a layer of its own, and rows may read
    /// what earlier steps left there; the cross-attention keys and values of
    /// [`Stack::write_cross_kv`] lie in the same cache, and `cross_metadata` tells which rows read which.
    /// Any other stack needs keys within a block only, so that one layer serves all.
    pub fn forward(
        &self,
        backend: &mut B,
        rows: &B::Input,
        metadata: &B::Metadata,
        cache: &mut B::Cache,
        cross_metadata: Option<&B::Metadata>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        let all = self.blocks.len();
        self.forward_through(all, backend, rows, metadata, cache, cross_metadata, work)
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
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        self.embed(backend, rows, work)?;
        for (index, block) in self.blocks.iter().enumerate().take(depth) {
            let layer = if self.causal { index } else { 0 };
            self.attend(backend, &block.attention, rows, metadata, cache, layer, work)?;
            if let (Some(cross), Some(cross_metadata)) = (&block.cross, cross_metadata) {
                self.cross(backend, cross, cross_metadata, cache, layer, work)?;
            }
            self.mlp(backend, &block.mlp, work)?;
        }
        Ok(())
    }

    /// Normalises the result of [`Stack::forward`], all rows or some, into the workspace's selected
    /// rows.
    pub fn select_rows(
        &self,
        backend: &mut B,
        rows: Option<&[u32]>,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        let from = match rows {
            Some(rows) => {
                backend.index_select(&work.x, rows, &mut work.unnormed)?;
                &mut work.unnormed
            }
            None => &mut work.x,
        };
        match &self.final_norm {
            Some(norm) => backend.norm(from, norm, &mut work.selected)?,
            None => mem::swap(from, &mut work.selected),
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

    /// All rows behind `depth` blocks, as transformers numbers `hidden_states`: behind the last block after the
    /// final norm, behind any other before it.
    pub fn states<'a>(
        &self,
        depth: usize,
        backend: &mut B,
        work: &'a mut Workspace<B>,
    ) -> Result<&'a B::Tensor, DeviceError> {
        if depth >= self.blocks.len() {
            self.select_rows(backend, None, work)?;
            return Ok(self.selected(work));
        }
        mem::swap(&mut work.x, &mut work.selected);
        Ok(&work.selected)
    }

    /// The rows that [`Stack::select_rows`] left.
    pub fn selected<'a>(&self, work: &'a Workspace<B>) -> &'a B::Tensor {
        if self.project_out.is_some() { &work.projected } else { &work.selected }
    }

    /// Width of the rows that [`Stack::select_rows`] leaves.
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
        let attend = Attend { bias: self.relative.as_ref(), ..self.plain_attend(self.causal) };
        backend.attend(&work.qkv, metadata, &attend, cache, layer, &mut work.attended)?;
        backend.linear(&work.attended, &part.out, Activation::None, Write::Add, &mut work.x)?;
        self.after(backend, &part.norm, work)
    }

    fn cross(
        &self,
        backend: &mut B,
        part: &CrossAttention<B>,
        cross_metadata: &B::Metadata,
        cache: &B::Cache,
        layer: usize,
        work: &mut Workspace<B>,
    ) -> Result<(), DeviceError> {
        self.before(backend, &part.norm, work)?;
        let input = if self.norm_first { &work.y } else { &work.x };
        backend.linear(input, &part.q, Activation::None, Write::Store, &mut work.q)?;
        let attend = self.plain_attend(false);
        backend.attend(&work.q, cross_metadata, &attend, cache, layer, &mut work.attended)?;
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

impl<B: Backend> LmHead<B> {
    /// Samples the next token after each row.
    pub fn sample(
        &self,
        backend: &mut B,
        rows: &B::Tensor,
        sampling: &SamplingMetadata,
        out: &mut SamplerOutput,
    ) -> Result<(), DeviceError> {
        out.clear();
        backend.sample(rows, &self.linear, self.scale, sampling, out)
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
