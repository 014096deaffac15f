//! Keys and values of all layers, in blocks of 16 tokens.

use super::memory::Buffer;
use super::simd::LANES;
use crate::backend::{BLOCK_SLOTS, CacheShape, DeviceError};

// A vector of logits is a block of keys.
const _: () = assert!(BLOCK_SLOTS == LANES);

/// Keys lie by number, then by slot: `[layer][block][kv_head][head_dim][16]`, so that a query's
/// products with the keys of a block are one vector. Values lie by slot: `[layer][block][kv_head]
/// [16][head_dim]`, with `head_dim` filled up to whole vectors.
#[derive(Debug)]
pub struct Cache {
    shape: CacheShape,
    keys: Buffer<f32>,
    values: Buffer<f32>,
}

/// The part of one layer.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    keys: &'a [f32],
    values: &'a [f32],
    shape: CacheShape,
}

impl Cache {
    /// Room for keys and values.
    pub(super) fn new(shape: CacheShape) -> Result<Self, DeviceError> {
        let layers = shape.layers.saturating_mul(shape.blocks);
        Ok(Self {
            shape,
            keys: Buffer::new(layers.saturating_mul(shape.kv_heads * key_len(shape)))?,
            values: Buffer::new(layers.saturating_mul(shape.kv_heads * value_len(shape)))?,
        })
    }

    /// Its sizes.
    pub(super) fn shape(&self) -> CacheShape {
        self.shape
    }

    /// The part of layer `layer`.
    pub(super) fn layer(&self, layer: usize) -> Layer<'_> {
        let keys = self.shape.blocks * self.shape.kv_heads * key_len(self.shape);
        let values = self.shape.blocks * self.shape.kv_heads * value_len(self.shape);
        Layer {
            keys: &self.keys[layer * keys..][..keys],
            values: &self.values[layer * values..][..values],
            shape: self.shape,
        }
    }

    /// Writes the key and value of head `head` to slot `slot` of layer `layer`.
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
            *place = key;
        }
        let start = place * value_len(self.shape) + slot * value_width(self.shape);
        self.values[start..start + value.len()].copy_from_slice(value);
    }

    /// Copies block `from` of all layers to block `to`.
    pub(super) fn copy_block(&mut self, from: usize, to: usize) {
        let keys = self.shape.kv_heads * key_len(self.shape);
        let values = self.shape.kv_heads * value_len(self.shape);
        for layer in 0..self.shape.layers {
            let (from, to) = (layer * self.shape.blocks + from, layer * self.shape.blocks + to);
            self.keys.copy_within(from * keys..(from + 1) * keys, to * keys);
            self.values.copy_within(from * values..(from + 1) * values, to * values);
        }
    }
}

impl<'a> Layer<'a> {
    /// The keys of a block: for each of `head_dim` numbers those of 16 slots.
    #[inline(always)]
    pub(super) fn keys(self, block: usize, head: usize) -> &'a [[f32; LANES]] {
        let len = key_len(self.shape);
        self.keys[(block * self.shape.kv_heads + head) * len..][..len].as_chunks().0
    }

    /// The values of a block: for each of 16 slots its vectors, see [`value_vectors`].
    #[inline(always)]
    pub(super) fn values(self, block: usize, head: usize) -> &'a [[f32; LANES]] {
        let len = value_len(self.shape);
        self.values[(block * self.shape.kv_heads + head) * len..][..len].as_chunks().0
    }

    /// Vectors of a value.
    #[inline(always)]
    pub(super) fn value_vectors(self) -> usize {
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
