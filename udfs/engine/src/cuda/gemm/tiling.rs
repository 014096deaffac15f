//! How a GEMM is tiled over thread blocks: by size alone, so that a step of the same size is the same
//! list of launches.

/// The tile of a thread block for bf16 activations. All tilings add in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    pub(super) kind: TileKind,
    /// Rows of a block.
    pub(super) rows: usize,
    pub(super) outputs: usize,
    pub(super) threads: usize,
    /// Bytes of shared memory, whatever the weights.
    pub(super) shared: usize,
}

/// What of a device decides how a GEMM is tiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) processors: usize,
    /// Bytes of shared memory that a block may have.
    pub(super) shared: usize,
}

/// Kernels that differ only in the weights that they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileKind {
    /// With the number of its tile.
    Narrow(usize),
    Middle,
    /// With the stages that are brought to shared memory.
    Wide(usize),
}

impl Tiling {
    const WIDE: [Self; 2] = [Self::wide(4), Self::wide(3)];
    const MIDDLE: Self =
        Self { kind: TileKind::Middle, rows: 64, outputs: 64, threads: 128, shared: 64 << 10 };
    const NARROW: [Self; 3] =
        [Self::narrow(0, 16, 16), Self::narrow(1, 16, 32), Self::narrow(2, 32, 32)];

    const fn wide(stages: usize) -> Self {
        let kind = TileKind::Wide(stages);
        Self { kind, rows: 128, outputs: 128, threads: 256, shared: stages * (32 << 10) }
    }

    const fn narrow(tile: usize, rows: usize, outputs: usize) -> Self {
        Self { kind: TileKind::Narrow(tile), rows, outputs, threads: 256, shared: 96 << 10 }
    }

    /// The largest blocks that are more than half full of rows and many enough for `processors`:
    /// large ones read weights and activations less often, small ones are done sooner.
    pub(super) fn of(rows: usize, outputs: usize, size: Size) -> Self {
        let Size { processors, shared } = size;
        let [deep, wide] = Self::WIDE;
        let blocks = |tiling: Self| rows.div_ceil(tiling.rows) * outputs.div_ceil(tiling.outputs);
        match rows {
            65.. if blocks(wide) >= processors => {
                if deep.shared <= shared {
                    deep
                } else {
                    wide
                }
            }
            33.. if blocks(Self::MIDDLE) >= processors.div_ceil(2) => Self::MIDDLE,
            17.. => Self::NARROW[2],
            _ if blocks(Self::NARROW[1]) >= processors => Self::NARROW[1],
            _ => Self::NARROW[0],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cuda::SHARED_LEAST;

    proptest! {
        /// Whatever the device, its blocks have the shared memory that they are told to use.
        #[test]
        fn blocks_fit_the_shared_memory_of_the_device(
            rows in 1_usize..10_000,
            outputs in 1_usize..200_000,
            processors in 1_usize..300,
            shared in SHARED_LEAST..=227 << 10,
        ) {
            let tiling = Tiling::of(rows, outputs, Size { processors, shared });
            prop_assert!(tiling.shared <= shared, "{tiling:?}");
        }
    }

    #[test]
    fn blocks_are_as_large_as_fills_the_device() {
        let h200 =
            |rows, outputs| Tiling::of(rows, outputs, Size { processors: 132, shared: 227 << 10 });
        assert_eq!(h200(1, 768), Tiling::NARROW[0]);
        assert_eq!(h200(16, 32_000), Tiling::NARROW[1]);
        assert_eq!(h200(64, 768), Tiling::NARROW[2]);
        assert_eq!(h200(64, 32_000), Tiling::MIDDLE);
        assert_eq!(h200(512, 768), Tiling::MIDDLE);
        assert_eq!(h200(2048, 2048), Tiling::wide(4));
        let l40s = Size { processors: 142, shared: SHARED_LEAST };
        assert_eq!(Tiling::of(2048, 2048, l40s), Tiling::wide(3));
    }
}
