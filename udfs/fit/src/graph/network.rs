//! The graph: from a part of a batch to its loss, or to the vectors of its texts.

use std::sync::Arc;

use proofmill_gemm::OutOfMemory;

use crate::data::batch::{Part, Rewards, Texts};
use crate::graph::ops::{Attend, Dropout, LayerNorm, Loss, Norm, PolicyLoss, Pool};
use crate::graph::tape::{Gradient, NodeId, Tape};
use crate::model::places::{
    Attention, Cross, Drops, Head, Learned, Linear, Mlp, NormPlace, Places, Stack,
};

/// One pass over a part of a batch.
pub struct Pass<'a> {
    pub places: &'a Places,
    /// Begins with the parameters, in their order.
    pub tape: Tape<'a>,
    pub dropout: Dropout,
}

/// The encoder states that a decoder attends to.
struct EncoderStates<'a> {
    rows: NodeId,
    /// Rows of each pair: those of all its passages.
    read: &'a Arc<[usize]>,
}

impl<'a> Pass<'a> {
    /// The sum of the losses of all tokens, each times its weight, and the gradients of the parameters
    /// if the tape records them. `smoothing` is the part of the target that is spread evenly.
    pub fn loss(
        mut self,
        part: &Part,
        smoothing: f32,
    ) -> Result<(f64, Vec<Gradient>), OutOfMemory> {
        let logits = match self.places {
            Places::Encoder(encoder) => self.stack(encoder, &part.inputs, None)?,
            Places::EncoderDecoder { encoder, decoder, head } => {
                let rows = self.stack(encoder, &part.inputs, None)?;
                let read = EncoderStates { rows, read: &part.read };
                let rows = self.stack(decoder, &part.outputs, Some(&read))?;
                self.logits(rows, head)?
            }
            Places::Decoder { decoder, head } => {
                let rows = self.stack(decoder, &part.outputs, None)?;
                self.logits(rows, head)?
            }
        };
        let (targets, grad) = (&part.targets, self.tape.records());
        let (numbers, width) = (self.tape.value(logits), self.tape.width(logits));
        let (loss, grad) = match &part.rewards {
            None => {
                let weights = &part.weights;
                Loss { targets, weights, smoothing, grad }.forward(numbers, width)
            }
            Some(Rewards { advantages, scoring }) => {
                let (ratio_max, entropy) = (scoring.ratio_max as f32, scoring.entropy as f32);
                let lengths = &part.outputs.lengths;
                let loss = PolicyLoss { targets, lengths, advantages, ratio_max, entropy, grad };
                loss.forward(numbers, width)
            }
        };
        if !self.tape.records() {
            return Ok((loss, Vec::new()));
        }
        Ok((loss, self.tape.backward(logits, grad)?))
    }

    /// The vectors of the texts, `[texts, width]`.
    pub fn vectors(mut self, texts: &Texts, pool: Pool) -> Result<Vec<f32>, OutOfMemory> {
        let vectors = self.pooled(texts, pool)?;
        Ok(self.tape.value(vectors).to_vec())
    }

    /// The gradients of the parameters, given those of the vectors of the texts.
    pub fn pull(
        mut self,
        texts: &Texts,
        pool: Pool,
        grad: Vec<f32>,
    ) -> Result<Vec<Gradient>, OutOfMemory> {
        let vectors = self.pooled(texts, pool)?;
        self.tape.backward(vectors, grad)
    }

    fn pooled(&mut self, texts: &Texts, pool: Pool) -> Result<NodeId, OutOfMemory> {
        let rows = self.stack(self.places.first(), texts, None)?;
        Ok(self.tape.pool(rows, pool, &texts.lengths))
    }

    fn logits(&mut self, mut rows: NodeId, head: &Head) -> Result<NodeId, OutOfMemory> {
        if let Some(transform) = &head.transform {
            rows = self.linear(rows, transform.linear)?;
            rows = self.tape.mlp(rows, transform.activation);
            rows = self.norm(rows, transform.norm);
        }
        if head.scale != 1.0 {
            rows = self.tape.scale(rows, head.scale);
        }
        self.tape.product_transposed(rows, NodeId(head.matrix), head.bias.map(NodeId))
    }

    fn stack(
        &mut self,
        stack: &'a Stack,
        texts: &Texts,
        read: Option<&EncoderStates<'_>>,
    ) -> Result<NodeId, OutOfMemory> {
        let mut rows = self.tape.rows(NodeId(stack.tokens), &texts.ids);
        if let Some(Learned { positions, offset, types }) = stack.learned {
            let text = |&length: &usize| (offset..offset + length).map(|row| row as u32);
            let at: Arc<[u32]> = texts.lengths.iter().flat_map(text).collect();
            let position = self.tape.rows(NodeId(positions), &at);
            rows = self.tape.add(rows, position);
            if let Some(types) = types {
                let kind = self.tape.rows(NodeId(types), &vec![0; texts.ids.len()].into());
                rows = self.tape.add(rows, kind);
            }
        }
        if let Some(norm) = stack.embedding_norm {
            rows = self.norm(rows, norm);
        }
        if stack.drops != Drops::Opt {
            rows = self.tape.dropout(rows, &self.dropout);
        }
        for block in &stack.blocks {
            rows = self.attention(&block.attention, stack, rows, texts)?;
            if let (Some(cross), Some(read)) = (&block.cross, read) {
                rows = self.cross(cross, stack, rows, texts, read)?;
            }
            rows = self.mlp(&block.mlp, stack, rows)?;
        }
        if let Some(norm) = stack.norm {
            rows = self.norm(rows, norm);
        }
        if stack.drops == Drops::T5 {
            rows = self.tape.dropout(rows, &self.dropout);
        }
        Ok(rows)
    }

    fn attention(
        &mut self,
        attention: &Attention,
        stack: &Stack,
        rows: NodeId,
        texts: &Texts,
    ) -> Result<NodeId, OutOfMemory> {
        let normed = self.before(stack, rows, attention.norm);
        let qkv = self.linear(normed, attention.qkv)?;
        let attend = Attend {
            heads: stack.heads,
            scale: stack.scale,
            queries: Arc::clone(&texts.lengths),
            keys: Arc::clone(&texts.lengths),
            causal: stack.causal,
            buckets: stack.relative.as_ref().map(|(_, buckets)| buckets.span(texts.longest())),
            drop: self.dropout.next(),
        };
        let table = stack.relative.as_ref().map(|(table, _)| NodeId(*table));
        let gathered = self.tape.attend(qkv, None, table, attend)?;
        self.close(stack, rows, gathered, attention.out, attention.norm)
    }

    fn cross(
        &mut self,
        cross: &Cross,
        stack: &Stack,
        rows: NodeId,
        texts: &Texts,
        read: &EncoderStates<'_>,
    ) -> Result<NodeId, OutOfMemory> {
        let normed = self.before(stack, rows, cross.norm);
        let q = self.linear(normed, cross.q)?;
        let kv = self.linear(read.rows, cross.kv)?;
        let attend = Attend {
            heads: stack.heads,
            scale: stack.scale,
            queries: Arc::clone(&texts.lengths),
            keys: Arc::clone(read.read),
            causal: false,
            buckets: None,
            drop: self.dropout.next(),
        };
        let gathered = self.tape.attend(q, Some(kv), None, attend)?;
        self.close(stack, rows, gathered, cross.out, cross.norm)
    }

    fn mlp(&mut self, mlp: &Mlp, stack: &Stack, rows: NodeId) -> Result<NodeId, OutOfMemory> {
        let normed = self.before(stack, rows, mlp.norm);
        let up = self.linear(normed, mlp.up)?;
        let mut active = self.tape.mlp(up, stack.mlp);
        if stack.drops == Drops::T5 {
            active = self.tape.dropout(active, &self.dropout);
        }
        self.close(stack, rows, active, mlp.down, mlp.norm)
    }

    fn linear(&mut self, rows: NodeId, linear: Linear) -> Result<NodeId, OutOfMemory> {
        self.tape.product(rows, NodeId(linear.matrix), linear.bias.map(NodeId))
    }

    fn norm(&mut self, rows: NodeId, norm: NormPlace) -> NodeId {
        let NormPlace { weight, bias, eps } = norm;
        match bias {
            None => self.tape.norm(rows, NodeId(weight), Norm { eps }),
            Some(bias) => {
                self.tape.layer_norm(rows, NodeId(weight), NodeId(bias), LayerNorm { eps })
            }
        }
    }

    /// What a branch reads.
    fn before(&mut self, stack: &Stack, rows: NodeId, norm: NormPlace) -> NodeId {
        if stack.norm_first { self.norm(rows, norm) } else { rows }
    }

    /// The last matrix of a branch, whose result is added to what the branch began with.
    fn close(
        &mut self,
        stack: &Stack,
        rows: NodeId,
        branch: NodeId,
        out: Linear,
        norm: NormPlace,
    ) -> Result<NodeId, OutOfMemory> {
        let branch = self.linear(branch, out)?;
        let branch = self.tape.dropout(branch, &self.dropout);
        let sum = self.tape.add(rows, branch);
        Ok(if stack.norm_first { sum } else { self.norm(sum, norm) })
    }
}
