//! The KV cache: keys and values of all layers, in blocks of 16 tokens.

use half::bf16;

use crate::backend::{BLOCK_SLOTS, CacheShape, DeviceError, Precision};
use proofmill_gemm::{Buffer, Plain};
use proofmill_gemm::{LANES, Simd};

// A vector of logits is a block of keys.
const _: () = assert!(BLOCK_SLOTS == LANES);

/// Keys lie by number, then by slot: `[layer][block][kv_head][head_dim][16]`, so that a query's
/// products with the keys of a block are one vector. Values lie by slot: `[layer][block][kv_head]
/// [16][head_dim]`, with `head_dim` filled up to whole vectors.
///
/// Beside 8-bit weights they are kept in bfloat16: reading them is what a step over many short texts
/// waits for, and they carry the error of the weights already.
#[derive(Debug)]
pub struct Cache {
    shape: CacheShape,
    numbers: Numbers,
}

#[derive(Debug)]
pub(super) enum Numbers {
    F32(KeysValues<f32>),
    Bf16(KeysValues<Bf16>),
}

/// Keys and values.
#[derive(Debug)]
pub(super) struct KeysValues<N> {
    shape: CacheShape,
    keys: Buffer<N>,
    values: Buffer<N>,
}

/// The bits of a bfloat16. A plain number, so that memory of zeros is not touched before it is used.
pub(super) type Bf16 = u16;

/// How a number of a cache is kept.
pub(super) trait Number: Plain {
    fn of(x: f32) -> Self;
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F;
}

impl Number for f32 {
    #[inline(always)]
    fn of(x: f32) -> Self {
        x
    }

    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load(from)
    }
}

impl Number for Bf16 {
    #[inline(always)]
    fn of(x: f32) -> Self {
        bf16::from_f32(x).to_bits()
    }

    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load_halves(from)
    }
}

/// The part of one layer.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a, N> {
    keys: &'a [N],
    values: &'a [N],
    shape: CacheShape,
}

impl Cache {
    /// Zeros.
    pub(super) fn new(shape: CacheShape) -> Result<Self, DeviceError> {
        let numbers = match shape.precision {
            Precision::F32 => Numbers::F32(KeysValues::new(shape)?),
            Precision::Bf16 | Precision::Int8 => Numbers::Bf16(KeysValues::new(shape)?),
        };
        Ok(Self { shape, numbers })
    }

    /// Its sizes.
    pub(super) fn shape(&self) -> CacheShape {
        self.shape
    }

    /// What it holds.
    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// What it holds.
    pub(super) fn numbers_mut(&mut self) -> &mut Numbers {
        &mut self.numbers
    }

    /// Copies block `from` of all layers to block `to`.
    pub(super) fn copy_block(&mut self, from: usize, to: usize) {
        match &mut self.numbers {
            Numbers::F32(both) => both.copy_block(from, to),
            Numbers::Bf16(both) => both.copy_block(from, to),
        }
    }
}

impl<N: Number> KeysValues<N> {
    fn new(shape: CacheShape) -> Result<Self, DeviceError> {
        let layers = shape.layers.saturating_mul(shape.blocks);
        Ok(Self {
            shape,
            keys: Buffer::new(layers.saturating_mul(shape.kv_heads * key_len(shape)))?,
            values: Buffer::new(layers.saturating_mul(shape.kv_heads * value_len(shape)))?,
        })
    }

    /// The part of layer `layer`.
    pub(super) fn layer(&self, layer: usize) -> Layer<'_, N> {
        let keys = self.shape.blocks * self.shape.kv_heads * key_len(self.shape);
        let values = self.shape.blocks * self.shape.kv_heads * value_len(self.shape);
        Layer {
            keys: &self.keys[layer * keys..][..keys],
            values: &self.values[layer * values..][..values],
            shape: self.shape,
        }
    }

    /// Writes the key and value of head `head` to slot `slot` of layer `layer`.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        layer: usize,
        slot: usize,
        head: usize,
        key: &[f32],
        value: &[f32],
    ) {
        let (block, slot) = (slot / BLOCK_SLOTS, slot % BLOCK_SLOTS);
        let place = (layer * self.shape.blocks + block) * self.shape.kv_heads + head;
        let keys = &mut self.keys[place * key_len(self.shape)..][..key_len(self.shape)];
        for (place, &key) in keys[slot..].iter_mut().step_by(BLOCK_SLOTS).zip(key) {
            *place = N::of(key);
        }
        let start = place * value_len(self.shape) + slot * value_width(self.shape);
        let values = &mut self.values[start..start + value.len()];
        values.iter_mut().zip(value).for_each(|(place, &value)| *place = N::of(value));
    }

    fn copy_block(&mut self, from: usize, to: usize) {
        let keys = self.shape.kv_heads * key_len(self.shape);
        let values = self.shape.kv_heads * value_len(self.shape);
        for layer in 0..self.shape.layers {
            let (from, to) = (layer * self.shape.blocks + from, layer * self.shape.blocks + to);
            self.keys.copy_within(from * keys..(from + 1) * keys, to * keys);
            self.values.copy_within(from * values..(from + 1) * values, to * values);
        }
    }
}

impl<'a, N: Number> Layer<'a, N> {
    /// The keys of a block: for each of `head_dim` numbers those of 16 slots.
    #[inline(always)]
    pub(super) fn keys(self, block: usize, head: usize) -> &'a [[N; LANES]] {
        let len = key_len(self.shape);
        self.keys[(block * self.shape.kv_heads + head) * len..][..len].as_chunks().0
    }

    /// The values of a block: for each of 16 slots its vectors, see [`value_vectors`].
    #[inline(always)]
    pub(super) fn values(self, block: usize, head: usize) -> &'a [[N; LANES]] {
        let len = value_len(self.shape);
        self.values[(block * self.shape.kv_heads + head) * len..][..len].as_chunks().0
    }

    #[inline(always)]
    pub(super) fn value_vectors(&self) -> usize {
        value_width(self.shape) / LANES
    }
}

fn key_len(shape: CacheShape) -> usize {
    shape.head_dim * BLOCK_SLOTS
}

fn value_len(shape: CacheShape) -> usize {
    value_width(shape) * BLOCK_SLOTS
}

fn value_width(shape: CacheShape) -> usize {
    shape.head_dim.next_multiple_of(LANES)
}
