//! Attention of several heads, forward and backward, with masks and relative positions.
//!
//! Rows of a part of a batch lie one text after the other, each as long as the longest:
//! `[texts * length, ...]`. Keys beyond the end of their text count nothing; rows of queries beyond
//! the end of theirs get numbers that nobody reads.

use candle_core::{CpuStorage, Device, Error, InplaceOp1, Layout, Result, Tensor};

use super::dropout::Drop;
use super::slice::with_numbers;
use crate::math::{dot, softmax};

/// How many heads there are and how wide each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    pub count: usize,
    /// Numbers of a token in each.
    pub width: usize,
}

/// One attention. Of itself: `(qkv [rows, 3 inner], table [buckets, heads])`. Of another stack:
/// `(q [rows, inner], kv [other rows, 2 inner])`. The result is `[rows, inner]`.
pub struct Attend {
    /// The heads; `inner` is count times width.
    pub heads: Heads,
    /// Tokens of each text that asks, padding included.
    pub queries: usize,
    /// Tokens of each text that is asked, padding included.
    pub keys: usize,
    /// Real tokens of each text that is asked.
    pub lengths: Vec<usize>,
    /// Whether a token sees none that comes later.
    pub causal: bool,
    /// The bucket of each distance from `1 - keys` to `keys - 1`; none for another stack, whose
    /// distances mean nothing.
    pub buckets: Option<Vec<usize>>,
    /// What is dropped of the probabilities.
    pub drop: Option<Drop>,
}

/// What the way back needs, head by head.
pub struct Saved {
    /// `[texts * heads, queries, width]`.
    q: Tensor,
    /// `[texts * heads, keys, width]`.
    k: Tensor,
    v: Tensor,
    /// `[texts * heads, queries, keys]`, before anything is dropped.
    weights: Tensor,
    /// After that, if anything is.
    dropped: Option<Tensor>,
}

/// A run of columns in rows.
#[derive(Clone, Copy)]
struct Columns {
    first: usize,
    of: usize,
}

/// Adds relative positions to scores and makes them probabilities of the keys that count.
struct Probabilities<'a> {
    attend: &'a Attend,
    bias: Option<Vec<f32>>,
}

impl Attend {
    /// Numbers of all heads together.
    pub fn inner(&self) -> usize {
        self.heads.count * self.heads.width
    }

    fn tensor(&self, values: Vec<f32>, length: usize, width: usize) -> Result<Tensor> {
        Tensor::from_vec(
            values,
            (self.lengths.len() * self.heads.count, length, width),
            &Device::Cpu,
        )
    }

    /// Rows of texts to rows of heads: `[texts * heads, length, width]`.
    fn split(&self, rows: &[f32], at: Columns, length: usize) -> Result<Tensor> {
        let Heads { count, width } = self.heads;
        let mut out = Vec::with_capacity(self.lengths.len() * count * length * width);
        for text in rows.chunks_exact(length * at.of) {
            for head in 0..count {
                let from = at.first + head * width;
                for row in text.chunks_exact(at.of) {
                    out.extend_from_slice(&row[from..from + width]);
                }
            }
        }
        self.tensor(out, length, width)
    }

    /// The reverse of [`Self::split`], into columns of `rows`.
    fn merge(&self, heads: &Tensor, at: Columns, length: usize, rows: &mut [f32]) -> Result<()> {
        let Heads { count, width } = self.heads;
        with_numbers(heads, |heads| {
            let mut parts = heads.chunks_exact(length * width);
            for text in rows.chunks_exact_mut(length * at.of) {
                for (head, part) in (0..count).zip(&mut parts) {
                    let from = at.first + head * width;
                    for (row, part) in text.chunks_exact_mut(at.of).zip(part.chunks_exact(width)) {
                        row[from..from + width].copy_from_slice(part);
                    }
                }
            }
        })
    }

    /// The table by head and distance.
    fn spread(&self, table: &[f32], buckets: &[usize]) -> Vec<f32> {
        let count = self.heads.count;
        let of = |head: usize| buckets.iter().map(move |bucket| table[bucket * count + head]);
        (0..count).flat_map(of).collect()
    }

    /// Keys that a query sees.
    fn seen(&self, text: usize, query: usize) -> usize {
        if self.causal { self.lengths[text].min(query + 1) } else { self.lengths[text] }
    }

    /// The rows that are gathered, and what the way back needs.
    pub fn forward(&self, first: &[f32], second: &[f32]) -> Result<(Vec<f32>, Saved)> {
        let inner = self.inner();
        let part = |part: usize, of: usize| Columns { first: part * inner, of: of * inner };
        let (q, k, v, bias) = match &self.buckets {
            Some(buckets) => (
                self.split(first, part(0, 3), self.queries)?,
                self.split(first, part(1, 3), self.keys)?,
                self.split(first, part(2, 3), self.keys)?,
                Some(self.spread(second, buckets)),
            ),
            None => (
                self.split(first, part(0, 1), self.queries)?,
                self.split(second, part(0, 2), self.keys)?,
                self.split(second, part(1, 2), self.keys)?,
                None,
            ),
        };
        let weights = q.matmul(&k.t()?)?;
        weights.inplace_op1(&Probabilities { attend: self, bias })?;
        let dropped = match &self.drop {
            None => None,
            Some(drop) => {
                let dropped = with_numbers(&weights, |weights| drop.apply(weights))?;
                Some(self.tensor(dropped, self.queries, self.keys)?)
            }
        };
        let out = dropped.as_ref().unwrap_or(&weights).matmul(&v)?;
        let mut rows = vec![0.0; self.lengths.len() * self.queries * inner];
        self.merge(&out, part(0, 1), self.queries, &mut rows)?;
        Ok((rows, Saved { q, k, v, weights, dropped }))
    }

    /// The gradients of both operands; that of a table has so many numbers.
    pub fn backward(
        &self,
        saved: &Saved,
        grad: &[f32],
        table: usize,
    ) -> Result<(Vec<f32>, Vec<f32>)> {
        let Saved { q, k, v, weights, dropped } = saved;
        let inner = self.inner();
        let part = |part: usize, of: usize| Columns { first: part * inner, of: of * inner };
        let grad = self.split(grad, part(0, 1), self.queries)?;
        let of_v = dropped.as_ref().unwrap_or(weights).transpose(1, 2)?.matmul(&grad)?;
        let of_weights = grad.matmul(&v.t()?)?;
        let scores = with_numbers(weights, |weights| {
            with_numbers(&of_weights, |grad| match &self.drop {
                None => self.softmax_grad(weights, grad),
                Some(drop) => self.softmax_grad(weights, &drop.apply(grad)),
            })
        })??;
        let mut of_table = vec![0.0; table];
        if let Some(buckets) = &self.buckets {
            self.table_grad(&scores, buckets, &mut of_table);
        }
        let scores = self.tensor(scores, self.queries, self.keys)?;
        let of_q = scores.matmul(k)?;
        let of_k = scores.transpose(1, 2)?.matmul(q)?;
        let texts = self.lengths.len();
        if self.buckets.is_some() {
            let mut of_first = vec![0.0; texts * self.queries * 3 * inner];
            for (number, grad) in [of_q, of_k, of_v].iter().enumerate() {
                self.merge(grad, part(number, 3), self.queries, &mut of_first)?;
            }
            return Ok((of_first, of_table));
        }
        let mut of_first = vec![0.0; texts * self.queries * inner];
        self.merge(&of_q, part(0, 1), self.queries, &mut of_first)?;
        let mut of_second = vec![0.0; texts * self.keys * 2 * inner];
        for (number, grad) in [of_k, of_v].iter().enumerate() {
            self.merge(grad, part(number, 2), self.keys, &mut of_second)?;
        }
        Ok((of_first, of_second))
    }

    fn softmax_grad(&self, weights: &[f32], grad: &[f32]) -> Vec<f32> {
        let mut out = Vec::with_capacity(weights.len());
        for (weights, grad) in weights.chunks_exact(self.keys).zip(grad.chunks_exact(self.keys)) {
            let along = dot(weights, grad);
            out.extend(weights.iter().zip(grad).map(|(weight, grad)| weight * (grad - along)));
        }
        out
    }

    /// The gradient of the table: the sum over all scores of a head and bucket.
    fn table_grad(&self, scores: &[f32], buckets: &[usize], table: &mut [f32]) {
        let (count, span) = (self.heads.count, buckets.len());
        let mut sums = vec![0.0; count * span];
        for (place, scores) in scores.chunks_exact(self.queries * self.keys).enumerate() {
            let sums = &mut sums[place % count * span..][..span];
            for (query, scores) in scores.chunks_exact(self.keys).enumerate() {
                for (sum, score) in sums[self.keys - 1 - query..].iter_mut().zip(scores) {
                    *sum += score;
                }
            }
        }
        for (head, sums) in sums.chunks_exact(span).enumerate() {
            for (bucket, sum) in buckets.iter().zip(sums) {
                table[bucket * count + head] += sum;
            }
        }
    }
}

impl InplaceOp1 for Probabilities<'_> {
    fn name(&self) -> &'static str {
        "probabilities"
    }

    fn cpu_fwd(&self, scores: &mut CpuStorage, _: &Layout) -> Result<()> {
        let CpuStorage::F32(scores) = scores else {
            return Err(Error::Msg("scores are not f32".to_owned()));
        };
        let Attend { heads, queries, keys, .. } = *self.attend;
        let span = 2 * keys - 1;
        for (place, scores) in scores.chunks_exact_mut(queries * keys).enumerate() {
            let (text, head) = (place / heads.count, place % heads.count);
            for (query, scores) in scores.chunks_exact_mut(keys).enumerate() {
                let (seen, hidden) = scores.split_at_mut(self.attend.seen(text, query));
                if let Some(bias) = &self.bias {
                    let bias = &bias[head * span..][keys - 1 - query..];
                    for (score, bias) in seen.iter_mut().zip(bias) {
                        *score += bias;
                    }
                }
                softmax(seen);
                hidden.fill(0.0);
            }
        }
        Ok(())
    }
}
