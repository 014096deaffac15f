//! How a GEMM is tiled over thread blocks: by size alone, so that a step of the same size is the same
//! list of launches.

/// Slices that the inputs are cut into (`gemm.cu`).
pub(super) const SLICES: usize = 8;
/// Fewest inputs of a part, so that its work is more than adding it up.
const PART_INPUTS: usize = 512;

/// The tile of a thread block on tensor cores. All tilings add in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    pub(super) kind: TileKind,
    /// Rows of a block.
    pub(super) rows: usize,
    pub(super) outputs: usize,
    pub(super) threads: usize,
    /// Bytes of shared memory.
    pub(super) shared: usize,
    /// Blocks that share the slices of a tile: 1, 2, 4 or 8. If several, another kernel adds them up.
    pub(super) parts: usize,
}

/// What of a device decides how a GEMM is tiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) processors: usize,
    /// Bytes of shared memory that a block may have.
    pub(super) shared: usize,
    /// Whether bytes are multiplied, whose sums are exact.
    pub(super) exact: bool,
}

/// Kernels that differ only in the numbers that they multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileKind {
    /// With the number of its tile.
    Narrow(usize),
    Middle,
    /// With the stages that are brought to shared memory.
    Wide(usize),
    /// Of bytes.
    WideExact,
}

impl Tiling {
    const WIDE_EXACT: Self = Self { kind: TileKind::WideExact, threads: 128, ..Self::wide(3) };
    const NARROW: [Self; 3] =
        [Self::narrow(0, 16, 16), Self::narrow(1, 16, 32), Self::narrow(2, 32, 32)];

    const fn wide(stages: usize) -> Self {
        let (kind, shared) = (TileKind::Wide(stages), stages * (32 << 10));
        Self { kind, rows: 128, outputs: 128, threads: 256, shared, parts: 1 }
    }

    const fn middle(parts: usize) -> Self {
        let (kind, shared) = (TileKind::Middle, 64 << 10);
        Self { kind, rows: 64, outputs: 64, threads: 128, shared, parts }
    }

    const fn narrow(tile: usize, rows: usize, outputs: usize) -> Self {
        let (kind, shared) = (TileKind::Narrow(tile), 96 << 10);
        Self { kind, rows, outputs, threads: 256, shared, parts: 1 }
    }

    /// The largest blocks that are more than half full of rows and many enough for the device, for
    /// `rows` rows of `inputs` numbers: large ones read weights and activations less often, small ones
    /// are done sooner. Where only large ones are too few, several share the inputs.
    pub(super) fn of(rows: usize, outputs: usize, inputs: usize, size: Size) -> Self {
        let Size { processors, shared, exact } = size;
        let wide = match Self::wide(4) {
            _ if exact => Self::WIDE_EXACT,
            deep if deep.shared <= shared => deep,
            _ => Self::wide(3),
        };
        let blocks = |tiling: Self| rows.div_ceil(tiling.rows) * outputs.div_ceil(tiling.outputs);
        let middle = blocks(Self::middle(1));
        let parts = [1, 2, 4, SLICES].into_iter().find(|parts| middle * parts >= processors);
        match (rows, parts) {
            // A tenth of the device without work costs less than a second turn.
            (65.., _) if blocks(wide) * 10 >= processors * 9 => wide,
            (33.., Some(parts)) if parts == 1 || inputs / parts >= PART_INPUTS => {
                Self::middle(parts)
            }
            (33.., _) if middle >= processors.div_ceil(2) => Self::middle(1),
            (17.., _) => Self::NARROW[2],
            _ if blocks(Self::NARROW[1]) >= processors => Self::NARROW[1],
            _ => Self::NARROW[0],
        }
    }

    /// How many sums the parts of a tile leave, for so many tiles of inputs: those of each slice that
    /// has any inputs, or where sums are `exact` those of each part.
    pub(super) fn written(self, tiles: usize, exact: bool) -> usize {
        let slice = tiles.div_ceil(SLICES);
        tiles.div_ceil(if exact { SLICES / self.parts * slice } else { slice })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cuda::SHARED_LEAST;

    proptest! {
        /// Whatever the device, its blocks have the shared memory that they are set to use.
        #[test]
        fn blocks_fit_the_shared_memory_of_the_device(
            rows in 1_usize..10_000,
            outputs in 1_usize..200_000,
            inputs in 1_usize..65_537,
            processors in 1_usize..300,
            shared in SHARED_LEAST..=227 << 10,
            exact in any::<bool>(),
        ) {
            let tiling = Tiling::of(rows, outputs, inputs, Size { processors, shared, exact });
            prop_assert!(tiling.shared <= shared, "{tiling:?}");
            prop_assert!(tiling.parts == 1 || inputs / tiling.parts >= PART_INPUTS, "{tiling:?}");
        }

        /// Every tile of the inputs is in a slice that somebody writes.
        #[test]
        fn slices_that_are_added_have_all_inputs(tiles in 1_usize..2049, parts in 0_usize..4) {
            let tiling = Tiling::middle(1 << parts);
            let (slice, each) = (tiles.div_ceil(SLICES), SLICES >> parts);
            let parts = (0..tiling.parts).filter(|part| part * each * slice < tiles).count();
            let slices = (0..SLICES).filter(|at| at * slice < tiles).count();
            prop_assert_eq!(tiling.written(tiles, false), slices);
            prop_assert_eq!(tiling.written(tiles, true), parts);
        }
    }

    #[test]
    fn blocks_are_as_large_as_fills_the_device() {
        let device = Size { processors: 132, shared: 227 << 10, exact: false };
        let h200 = |rows, outputs| Tiling::of(rows, outputs, 768, device);
        assert_eq!(h200(1, 768), Tiling::NARROW[0]);
        assert_eq!(h200(16, 32_000), Tiling::NARROW[1]);
        assert_eq!(h200(64, 768), Tiling::NARROW[2]);
        assert_eq!(h200(64, 32_000), Tiling::middle(1));
        assert_eq!(h200(512, 768), Tiling::middle(1));
        assert_eq!(h200(2048, 2048), Tiling::wide(4));
        // 128 blocks are nearly as many as there are processors.
        assert_eq!(h200(256, 8192), Tiling::wide(4));
        let l40s = Size { processors: 142, shared: SHARED_LEAST, exact: false };
        assert_eq!(Tiling::of(2048, 2048, 768, l40s), Tiling::wide(3));
        let bytes = Size { exact: true, ..device };
        assert_eq!(Tiling::of(2048, 2048, 768, bytes), Tiling::WIDE_EXACT);
    }

    #[test]
    fn blocks_that_are_too_few_share_the_inputs() {
        let device = Size { processors: 132, shared: 227 << 10, exact: false };
        let blocks = |rows, outputs, inputs| {
            let tiling = Tiling::of(rows, outputs, inputs, device);
            (tiling, outputs.div_ceil(tiling.outputs) * rows.div_ceil(tiling.rows) * tiling.parts)
        };
        assert_eq!(blocks(256, 2048, 8192), (Tiling::middle(2), 256));
        assert_eq!(blocks(128, 2048, 8192), (Tiling::middle(4), 256));
        assert_eq!(blocks(64, 2048, 8192), (Tiling::middle(8), 256));
        assert_eq!(blocks(512, 768, 3072), (Tiling::middle(2), 192));
    }
}
