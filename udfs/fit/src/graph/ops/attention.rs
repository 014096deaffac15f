//! Attention of several heads, forward and backward, with masks and relative positions.
//!
//! Rows lie one text after the other. Queries, keys and values are columns of wider rows, and are read where they
//! lie, head by head.

use std::sync::Arc;

use proofmill_gemm::{Multiplier, Operand, OutOfMemory, Sums};

use super::dropout::Drop;
use crate::graph::math::{dot, softmax};

/// How many heads there are and how wide each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    pub count: usize,
    /// Numbers of a token in each.
    pub width: usize,
}

/// One attention. Of itself: `qkv [rows, 3 inner]`. Of another stack: `q [rows, inner]` and `kv [other rows,
/// 2 inner]`. The result is `[rows, inner]`.
pub struct Attend {
    /// The heads; `inner` is count times width.
    pub heads: Heads,
    /// Multiplies the scores.
    pub scale: f32,
    /// Tokens of each text that asks.
    pub queries: Arc<[usize]>,
    /// Tokens of each text that is attended to.
    pub keys: Arc<[usize]>,
    /// Whether a token sees none that comes later.
    pub causal: bool,
    /// The bucket of each distance from `1 - longest` to `longest - 1`, of a table `[buckets, heads]` that is added to
    /// the scores; none where positions are in the rows, or mean nothing.
    pub buckets: Option<Vec<usize>>,
    /// What is dropped of the probabilities.
    pub drop: Option<Drop>,
}

/// What the way back needs: probabilities `[queries, keys]` of all texts and heads, one after the other.
pub struct Saved {
    /// Before anything is dropped.
    weights: Vec<f32>,
    /// After that, if anything is.
    dropped: Option<Vec<f32>>,
}

/// The rows of one head of one text inside wider rows.
#[derive(Clone, Copy)]
struct Place {
    /// Where the first number lies.
    first: usize,
    rows: usize,
    /// Numbers from one row to the next.
    stride: usize,
}

/// One head of one text.
#[derive(Clone, Copy)]
struct Head {
    number: usize,
    q: Place,
    k: Place,
    v: Place,
    /// In the result.
    out: Place,
    /// Where its probabilities begin.
    weights: usize,
}

impl Head {
    fn weights(&self) -> std::ops::Range<usize> {
        self.weights..self.weights + self.q.rows * self.k.rows
    }
}

impl Attend {
    /// Numbers of all heads together.
    pub fn inner(&self) -> usize {
        self.heads.count * self.heads.width
    }

    /// All heads of all texts; `own` where queries, keys and values lie in the same rows.
    fn all(&self, own: bool) -> impl Iterator<Item = Head> + '_ {
        let inner = self.inner();
        let (mut queries, mut keys, mut weights) = (0, 0, 0);
        let texts = self.queries.iter().zip(self.keys.iter());
        texts.flat_map(move |(&asking, &attended)| {
            let (q, k, w) = (queries, keys, weights);
            queries += asking;
            keys += attended;
            weights += self.heads.count * asking * attended;
            (0..self.heads.count).map(move |number| {
                let place = |row: usize, rows: usize, part: usize, parts: usize| Place {
                    first: row * parts * inner + part * inner + number * self.heads.width,
                    rows,
                    stride: parts * inner,
                };
                Head {
                    number,
                    q: if own { place(q, asking, 0, 3) } else { place(q, asking, 0, 1) },
                    k: if own { place(k, attended, 1, 3) } else { place(k, attended, 0, 2) },
                    v: if own { place(k, attended, 2, 3) } else { place(k, attended, 1, 2) },
                    out: place(q, asking, 0, 1),
                    weights: w + number * asking * attended,
                }
            })
        })
    }

    fn operand<'a>(&self, rows: &'a [f32], at: Place) -> Operand<'a> {
        Operand::with_stride(&rows[at.first..], at.rows, self.heads.width, at.stride)
    }

    fn write(&self, rows: &mut [f32], at: Place, head: &[f32]) {
        let rows = rows[at.first..].chunks_mut(at.stride);
        for (row, head) in rows.zip(head.chunks_exact(self.heads.width)) {
            row[..self.heads.width].copy_from_slice(head);
        }
    }

    /// Longest of the texts that are attended to.
    fn longest(&self) -> usize {
        self.keys.iter().copied().max().unwrap_or(0)
    }

    /// The rows that are gathered, and what the way back needs. `other` are keys and values of another stack.
    pub fn forward(
        &self,
        multiplier: &mut Multiplier,
        first: &[f32],
        other: Option<&[f32]>,
        table: Option<&[f32]>,
    ) -> Result<(Vec<f32>, Saved), OutOfMemory> {
        let read = other.unwrap_or(first);
        let (own, longest) = (other.is_none(), self.longest());
        let count = self.all(own).map(|head| head.weights().end).max().unwrap_or(0);
        let mut weights = vec![0.0; count];
        for head in self.all(own) {
            let (q, k) = (self.operand(first, head.q), self.operand(read, head.k));
            let scores = &mut weights[head.weights()];
            multiplier.multiply(q, k.transposed(), Sums::FromZero, scores)?;
            let bias = self.buckets.as_deref().zip(table);
            for (query, scores) in scores.chunks_exact_mut(head.k.rows).enumerate() {
                let seen = if self.causal { query + 1 } else { head.k.rows };
                let (seen, hidden) = scores.split_at_mut(seen.min(head.k.rows));
                if let Some((buckets, table)) = bias {
                    for (score, bucket) in seen.iter_mut().zip(&buckets[longest - 1 - query..]) {
                        *score =
                            *score * self.scale + table[bucket * self.heads.count + head.number];
                    }
                } else {
                    seen.iter_mut().for_each(|score| *score *= self.scale);
                }
                softmax(seen);
                hidden.fill(0.0);
            }
        }
        let dropped = self.drop.as_ref().map(|drop| drop.apply(&weights));
        let mut out = vec![0.0; self.queries.iter().sum::<usize>() * self.inner()];
        let mut gathered = Vec::new();
        for head in self.all(own) {
            let weights = &dropped.as_ref().unwrap_or(&weights)[head.weights()];
            let weights = Operand::new(weights, head.q.rows, head.k.rows);
            gathered.resize(head.q.rows * self.heads.width, 0.0);
            let v = self.operand(read, head.v);
            multiplier.multiply(weights, v, Sums::FromZero, &mut gathered)?;
            self.write(&mut out, head.out, &gathered);
        }
        Ok((out, Saved { weights, dropped }))
    }

    /// The gradients of the first operand, the other and a table of so many numbers, as far as they are there.
    pub fn backward(
        &self,
        multiplier: &mut Multiplier,
        saved: &Saved,
        (first, other): (&[f32], Option<&[f32]>),
        table: usize,
        grad: &[f32],
    ) -> Result<[Vec<f32>; 3], OutOfMemory> {
        let read = other.unwrap_or(first);
        let own = other.is_none();
        let mut of_weights = vec![0.0; saved.weights.len()];
        for head in self.all(own) {
            let (grad, v) = (self.operand(grad, head.out), self.operand(read, head.v));
            let out = &mut of_weights[head.weights()];
            multiplier.multiply(grad, v.transposed(), Sums::FromZero, out)?;
        }
        if let Some(drop) = &self.drop {
            of_weights = drop.apply(&of_weights);
        }
        let (mut of_first, mut of_other) =
            (vec![0.0; first.len()], vec![0.0; other.map_or(0, <[f32]>::len)]);
        let mut of_table = vec![0.0; table];
        let mut part = Vec::new();
        for head in self.all(own) {
            let weights = &saved.weights[head.weights()];
            let used = &saved.dropped.as_ref().unwrap_or(&saved.weights)[head.weights()];
            let square = |weights| Operand::new(weights, head.q.rows, head.k.rows);
            let scores = &mut of_weights[head.weights()];
            softmax_grad(weights, head.k.rows, scores);
            if let Some(buckets) = &self.buckets {
                self.table_grad(head, scores, buckets, &mut of_table);
            }
            scores.iter_mut().for_each(|score| *score *= self.scale);
            let (q, k) = (self.operand(first, head.q), self.operand(read, head.k));
            part.resize(head.q.rows * self.heads.width, 0.0);
            multiplier.multiply(square(scores), k, Sums::FromZero, &mut part)?;
            self.write(&mut of_first, head.q, &part);
            let of_read = if own { &mut of_first } else { &mut of_other };
            part.resize(head.k.rows * self.heads.width, 0.0);
            multiplier.multiply(square(scores).transposed(), q, Sums::FromZero, &mut part)?;
            self.write(of_read, head.k, &part);
            let grad = self.operand(grad, head.out);
            multiplier.multiply(square(used).transposed(), grad, Sums::FromZero, &mut part)?;
            self.write(of_read, head.v, &part);
        }
        Ok([of_first, of_other, of_table])
    }

    /// Adds to the gradient of the table: the sum over the scores of a head and bucket.
    fn table_grad(&self, head: Head, scores: &[f32], buckets: &[usize], table: &mut [f32]) {
        let mut sums = vec![0.0; buckets.len()];
        let middle = self.longest() - 1;
        for (query, scores) in scores.chunks_exact(head.k.rows).enumerate() {
            for (sum, score) in sums[middle - query..].iter_mut().zip(scores) {
                *sum += score;
            }
        }
        for (bucket, sum) in buckets.iter().zip(&sums) {
            table[bucket * self.heads.count + head.number] += sum;
        }
    }
}

/// Makes gradients of probabilities into gradients of their scores.
fn softmax_grad(weights: &[f32], keys: usize, grads: &mut [f32]) {
    for (weights, grads) in weights.chunks_exact(keys).zip(grads.chunks_exact_mut(keys)) {
        let along = dot(weights, grads);
        for (grad, weight) in grads.iter_mut().zip(weights) {
            *grad = weight * (*grad - along);
        }
    }
}
