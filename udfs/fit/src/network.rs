//! The graph: from a part of a batch to its loss.

use candle_core::{Device, Result, Tensor};

use crate::batch::{Part, Texts};
use crate::ops::{self, Attend, Dropout, Loss, with_numbers};
use crate::shape::Shape;
use crate::tape::{NodeId, Tape};
use crate::weights::{Attention, Cross, Mlp, Places, Stack};

/// One pass over a part of a batch.
pub struct Pass<'a> {
    pub shape: &'a Shape,
    pub places: &'a Places,
    /// Begins with the parameters, in their order.
    pub tape: Tape,
    pub dropout: Dropout,
    /// Part of the target that is spread evenly over the vocabulary.
    pub smoothing: f32,
}

/// The encoder states that the decoder attends to.
struct EncoderStates<'a> {
    rows: NodeId,
    texts: &'a Texts,
}

impl Pass<'_> {
    /// The sum of the losses of all tokens, each times its weight, and the gradients of the parameters
    /// if the tape records them; none of one that takes no part.
    pub fn loss(mut self, part: &Part) -> Result<(f64, Vec<Option<Tensor>>)> {
        let rows = self.stack(&self.places.encoder, &part.inputs, None)?;
        let read = EncoderStates { rows, texts: &part.inputs };
        let rows = self.stack(&self.places.decoder, &part.outputs, Some(&read))?;
        let scale = if self.shape.scaled { (self.shape.width as f32).sqrt().recip() } else { 1.0 };
        let head = NodeId(self.places.head.unwrap_or(self.places.embedding));
        let logits = self.tape.product_transposed(rows, head, scale)?;
        let loss = Loss {
            targets: &part.targets,
            weights: &part.weights,
            smoothing: self.smoothing,
            grad: self.tape.records(),
        };
        let vocabulary = self.shape.vocabulary;
        let logits_value = self.tape.value(logits);
        let (loss, grad) = with_numbers(logits_value, |it| loss.forward(it, vocabulary))?;
        if !self.tape.records() {
            return Ok((loss, Vec::new()));
        }
        let grad = Tensor::from_vec(grad, logits_value.shape(), &Device::Cpu)?;
        Ok((loss, self.tape.backward(logits, grad, self.places.parameters)?))
    }

    fn stack(
        &mut self,
        stack: &Stack,
        texts: &Texts,
        read: Option<&EncoderStates<'_>>,
    ) -> Result<NodeId> {
        let rows = self.tape.rows(NodeId(self.places.embedding), &texts.ids)?;
        let mut rows = self.tape.dropout(rows, &self.dropout)?;
        let buckets = self.shape.relative(read.is_none()).span(texts.longest);
        for block in &stack.blocks {
            rows =
                self.attention(&block.attention, stack, &buckets, rows, texts, read.is_some())?;
            if let (Some(cross), Some(read)) = (&block.cross, read) {
                rows = self.cross(cross, rows, texts, read)?;
            }
            rows = self.mlp(&block.mlp, rows)?;
        }
        let rows = self.norm(rows, stack.norm)?;
        self.tape.dropout(rows, &self.dropout)
    }

    fn attention(
        &mut self,
        attention: &Attention,
        stack: &Stack,
        buckets: &[usize],
        rows: NodeId,
        texts: &Texts,
        causal: bool,
    ) -> Result<NodeId> {
        let normed = self.norm(rows, attention.norm)?;
        let qkv = self.tape.product(normed, NodeId(attention.qkv))?;
        let attend = Attend {
            heads: self.shape.heads,
            queries: texts.longest,
            keys: texts.longest,
            lengths: texts.lengths.clone(),
            causal,
            buckets: Some(buckets.to_vec()),
            drop: self.dropout.next(),
        };
        let gathered = self.tape.attend(qkv, NodeId(stack.positions), attend)?;
        self.close(rows, gathered, attention.out)
    }

    fn cross(
        &mut self,
        cross: &Cross,
        rows: NodeId,
        texts: &Texts,
        read: &EncoderStates<'_>,
    ) -> Result<NodeId> {
        let normed = self.norm(rows, cross.norm)?;
        let q = self.tape.product(normed, NodeId(cross.q))?;
        let kv = self.tape.product(read.rows, NodeId(cross.kv))?;
        let attend = Attend {
            heads: self.shape.heads,
            queries: texts.longest,
            keys: read.texts.longest,
            lengths: read.texts.lengths.clone(),
            causal: false,
            buckets: None,
            drop: self.dropout.next(),
        };
        let gathered = self.tape.attend(q, kv, attend)?;
        self.close(rows, gathered, cross.out)
    }

    fn mlp(&mut self, mlp: &Mlp, rows: NodeId) -> Result<NodeId> {
        let (activation, width) = (self.shape.activation, self.shape.mlp_width);
        let normed = self.norm(rows, mlp.norm)?;
        let up = self.tape.product(normed, NodeId(mlp.up))?;
        let active = self.tape.mlp(up, ops::MlpShape { activation, width })?;
        let active = self.tape.dropout(active, &self.dropout)?;
        self.close(rows, active, mlp.down)
    }

    fn norm(&mut self, rows: NodeId, weight: usize) -> Result<NodeId> {
        self.tape.norm(rows, NodeId(weight), ops::Norm { eps: self.shape.eps })
    }

    /// The last matrix of a branch, whose result is added to what the branch began with.
    fn close(&mut self, rows: NodeId, branch: NodeId, out: usize) -> Result<NodeId> {
        let branch = self.tape.product(branch, NodeId(out))?;
        let branch = self.tape.dropout(branch, &self.dropout)?;
        self.tape.add(rows, branch)
    }
}
