//! Keys and values of all layers on the device, in blocks of 16 tokens.

use super::device::Gpu;
use super::driver::{Driver, Memory, Role};
use crate::backend::{BLOCK_SLOTS, CacheShape, DeviceError, Precision, check};

/// Keys, and values alike: `[layer][block][kv_head][16 slots][stride]`, in f32 for
/// [`Precision::F32`], else in bfloat16. A slot's numbers are filled up to whole pieces of 16 bytes
/// with zeros, so that kernels fetch it in such pieces.
#[derive(Debug)]
pub struct Cache<M> {
    shape: CacheShape,
    keys: M,
    values: M,
}

impl<M: Memory> Cache<M> {
    /// Room for keys and values. There is none where the heads of a layer's slots are more than kernels
    /// can number in 32 bits, whatever the memory: a smaller cache will do.
    pub(super) fn new<D: Driver<Memory = M>>(
        driver: &D,
        shape: CacheShape,
    ) -> Result<Self, DeviceError> {
        let blocks = shape.layers.saturating_mul(shape.blocks);
        let bytes = blocks.saturating_mul(block_bytes(shape));
        let heads = shape.blocks.saturating_mul(BLOCK_SLOTS * shape.kv_heads);
        if u32::try_from(heads).is_err() {
            return Err(DeviceError::OutOfMemory { bytes });
        }
        let room = || driver.alloc(Role::Cache, bytes);
        Ok(Self { shape, keys: room()?, values: room()? })
    }

    /// Its sizes.
    pub(super) fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Numbers from one slot of a head to the next.
    pub(super) fn stride(&self) -> usize {
        stride(self.shape)
    }

    /// Whether its numbers are f32.
    pub(super) fn has_floats(&self) -> bool {
        has_floats(self.shape)
    }

    /// Fails unless its numbers are as wide as the activations of `gpu`.
    pub(super) fn expect_numbers<D: Driver<Memory = M>>(
        &self,
        gpu: &Gpu<D>,
    ) -> Result<(), DeviceError> {
        check::expect(self.has_floats() != gpu.has_halves(), || {
            format!(
                "expected a KV cache as wide as the activations, found {:?}",
                self.shape.precision
            )
        })
    }

    /// Bytes of the keys of a block in one layer, and of its values.
    pub(super) fn block_bytes(&self) -> usize {
        block_bytes(self.shape)
    }

    /// The keys and the values of all layers.
    pub(super) fn memory(&self) -> [&M; 2] {
        [&self.keys, &self.values]
    }

    /// Where the keys and the values of `layer` begin.
    pub(super) fn layer(&self, layer: usize) -> [u64; 2] {
        let offset = (layer * self.shape.blocks * self.block_bytes()) as u64;
        [self.keys.address() + offset, self.values.address() + offset]
    }
}

fn has_floats(shape: CacheShape) -> bool {
    match shape.precision {
        Precision::F32 => true,
        Precision::Bf16 | Precision::Int8 => false,
    }
}

fn stride(shape: CacheShape) -> usize {
    shape.head_dim.next_multiple_of(if has_floats(shape) { 4 } else { 8 })
}

fn block_bytes(shape: CacheShape) -> usize {
    let number = if has_floats(shape) { size_of::<f32>() } else { size_of::<u16>() };
    shape.kv_heads.saturating_mul(BLOCK_SLOTS * number).saturating_mul(stride(shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::driver::Launch;

    /// Memory without end, and nothing in it.
    struct Endless;
    struct Piece(usize);

    impl Memory for Piece {
        fn address(&self) -> u64 {
            256
        }

        fn bytes(&self) -> usize {
            self.0
        }
    }

    impl Driver for Endless {
        type Memory = Piece;
        type Download = ();

        fn alloc(&self, _: Role, bytes: usize) -> Result<Piece, DeviceError> {
            Ok(Piece(bytes))
        }

        fn upload(&self, _: &[u8], _: &Piece, _: usize) -> Result<(), DeviceError> {
            Ok(())
        }

        fn run(&self, _: &[Launch]) -> Result<(), DeviceError> {
            Ok(())
        }

        fn download(&self, _: &Piece, _: usize, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }

        fn begin_download(&self, _: &Piece, _: usize, _: usize) -> Result<(), DeviceError> {
            Ok(())
        }

        fn end_download(&self, (): (), _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    #[test]
    fn a_cache_is_no_larger_than_kernels_can_count() {
        let shape = |blocks| CacheShape {
            layers: 2,
            blocks,
            kv_heads: 4,
            head_dim: 8,
            precision: Precision::Bf16,
        };
        assert!(Cache::new(&Endless, shape((1 << 26) - 1)).is_ok());
        let error = Cache::new(&Endless, shape(1 << 26)).err();
        assert!(matches!(error, Some(DeviceError::OutOfMemory { .. })), "{error:?}");
    }
}
