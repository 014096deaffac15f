//! RoPE and the writing of keys and values to the KV cache.

use super::kv_cache::{KeysValues, Number};
use super::norm::Normal;
use proofmill_gemm::{Simd, SimdKernel};

/// Angles of all positions, `[positions, head_dim / 2]` each.
#[derive(Clone, Copy)]
pub(super) struct Angles<'a> {
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
}

/// The rows `[q | k | v]` and how they are normalised and rotated.
pub(super) struct KvRows<'a> {
    pub(super) qkv: &'a mut [f32],
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    /// Of `q` and of `k`.
    pub(super) norms: Option<(Normal<'a>, Normal<'a>)>,
    pub(super) angles: Option<Angles<'a>>,
    /// One per row, if there are angles.
    pub(super) positions: &'a [u32],
    pub(super) slots: &'a [u32],
}

/// Writes all rows to a layer of a KV cache.
pub(super) struct WriteKv<'a, N> {
    pub(super) rows: KvRows<'a>,
    pub(super) cache: &'a mut KeysValues<N>,
    pub(super) layer: usize,
}

impl<N: Number> SimdKernel for WriteKv<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { rows, cache, layer } = self;
        let KvRows { qkv, heads, kv_heads, head_dim: dim, norms, angles, positions, slots } = rows;
        let (q_len, kv_len) = (heads * dim, kv_heads * dim);
        let rows = qkv.chunks_exact_mut(q_len + 2 * kv_len).zip(slots);
        for (index, (row, &slot)) in rows.enumerate() {
            let (q, kv) = row.split_at_mut(q_len);
            let (k, v) = kv.split_at_mut(kv_len);
            if let Some((q_norm, k_norm)) = norms {
                q.chunks_exact_mut(dim).for_each(|head| q_norm.apply(s, head));
                k.chunks_exact_mut(dim).for_each(|head| k_norm.apply(s, head));
            }
            if let Some(angles) = angles {
                let position = positions[index] as usize;
                q.chunks_exact_mut(dim).for_each(|head| angles.rotate(position, head));
                k.chunks_exact_mut(dim).for_each(|head| angles.rotate(position, head));
            }
            for (head, (k, v)) in k.chunks_exact(dim).zip(v.chunks_exact(dim)).enumerate() {
                cache.put(layer, slot as usize, head, k, v);
            }
        }
    }
}

impl Angles<'_> {
    #[inline(always)]
    fn rotate(self, position: usize, head: &mut [f32]) {
        let half = head.len() / 2;
        let (first, second) = head.split_at_mut(half);
        let cos = &self.cos[position * half..][..half];
        let sin = &self.sin[position * half..][..half];
        for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}
