//! The graph: from a part of a batch to its loss.

use candle_core::{Device, Result, Tensor};

use crate::batch::{Part, Texts};
use crate::ops::{self, Attend, Dropout, Loss, with_numbers};
use crate::shape::Shape;
use crate::tape::{At, Tape};
use crate::weights::{Attention, Cross, Feed, Places, Stack};

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

/// What the decoder looks at.
struct Read<'a> {
    rows: At,
    texts: &'a Texts,
}

impl Pass<'_> {
    /// The sum of the losses of all tokens, each times its weight, and the slopes of the parameters
    /// if the tape goes back; none of one that takes no part.
    pub fn loss(mut self, part: &Part) -> Result<(f64, Vec<Option<Tensor>>)> {
        let rows = self.stack(&self.places.encoder, &part.inputs, None)?;
        let read = Read { rows, texts: &part.inputs };
        let rows = self.stack(&self.places.decoder, &part.outputs, Some(&read))?;
        let scale = if self.shape.scaled { (self.shape.width as f32).sqrt().recip() } else { 1.0 };
        let head = At(self.places.head.unwrap_or(self.places.embedding));
        let logits = self.tape.product_across(rows, head, scale)?;
        let loss = Loss {
            targets: &part.targets,
            weights: &part.weights,
            smoothing: self.smoothing,
            slope: self.tape.goes_back(),
        };
        let vocabulary = self.shape.vocabulary;
        let logits_value = self.tape.value(logits);
        let (loss, slope) = with_numbers(logits_value, |it| loss.forward(it, vocabulary))?;
        if !self.tape.goes_back() {
            return Ok((loss, Vec::new()));
        }
        let slope = Tensor::from_vec(slope, logits_value.shape(), &Device::Cpu)?;
        Ok((loss, self.tape.slopes(logits, slope, self.places.parameters)?))
    }

    fn stack(&mut self, stack: &Stack, texts: &Texts, read: Option<&Read<'_>>) -> Result<At> {
        let rows = self.tape.rows(At(self.places.embedding), &texts.ids)?;
        let mut rows = self.tape.thin(rows, &self.dropout)?;
        let buckets = self.shape.relative(read.is_none()).span(texts.longest);
        for block in &stack.blocks {
            rows =
                self.attention(&block.attention, stack, &buckets, rows, texts, read.is_some())?;
            if let (Some(cross), Some(read)) = (&block.cross, read) {
                rows = self.cross(cross, rows, texts, read)?;
            }
            rows = self.feed(&block.feed, rows)?;
        }
        let rows = self.norm(rows, stack.norm)?;
        self.tape.thin(rows, &self.dropout)
    }

    fn attention(
        &mut self,
        attention: &Attention,
        stack: &Stack,
        buckets: &[usize],
        rows: At,
        texts: &Texts,
        causal: bool,
    ) -> Result<At> {
        let normed = self.norm(rows, attention.norm)?;
        let qkv = self.tape.product(normed, At(attention.qkv))?;
        let attend = Attend {
            heads: self.shape.heads,
            queries: texts.longest,
            keys: texts.longest,
            lengths: texts.lengths.clone(),
            causal,
            buckets: Some(buckets.to_vec()),
            drop: self.dropout.next(),
        };
        let gathered = self.tape.attend(qkv, At(stack.positions), attend)?;
        self.close(rows, gathered, attention.out)
    }

    fn cross(&mut self, cross: &Cross, rows: At, texts: &Texts, read: &Read<'_>) -> Result<At> {
        let normed = self.norm(rows, cross.norm)?;
        let q = self.tape.product(normed, At(cross.q))?;
        let kv = self.tape.product(read.rows, At(cross.kv))?;
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

    fn feed(&mut self, feed: &Feed, rows: At) -> Result<At> {
        let (activation, width) = (self.shape.activation, self.shape.feed_width);
        let normed = self.norm(rows, feed.norm)?;
        let up = self.tape.product(normed, At(feed.up))?;
        let active = self.tape.feed(up, ops::Feed { activation, width })?;
        let active = self.tape.thin(active, &self.dropout)?;
        self.close(rows, active, feed.down)
    }

    fn norm(&mut self, rows: At, weight: usize) -> Result<At> {
        self.tape.norm(rows, At(weight), ops::Norm { eps: self.shape.eps })
    }

    /// The last matrix of a branch, whose result is added to what the branch began with.
    fn close(&mut self, rows: At, branch: At, out: usize) -> Result<At> {
        let branch = self.tape.product(branch, At(out))?;
        let branch = self.tape.thin(branch, &self.dropout)?;
        self.tape.add(rows, branch)
    }
}
