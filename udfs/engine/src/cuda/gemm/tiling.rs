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

/// Kernels that differ only in the weights that they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileKind {
    /// With the number of its tile.
    Narrow(usize),
    Middle,
    Wide,
}

impl Tiling {
    const WIDE: Self =
        Self { kind: TileKind::Wide, rows: 128, outputs: 128, threads: 256, shared: 128 << 10 };
    const MIDDLE: Self =
        Self { kind: TileKind::Middle, rows: 64, outputs: 64, threads: 128, shared: 64 << 10 };
    const NARROW: [Self; 3] =
        [Self::narrow(0, 16, 16), Self::narrow(1, 16, 32), Self::narrow(2, 32, 32)];

    const fn narrow(tile: usize, rows: usize, outputs: usize) -> Self {
        Self { kind: TileKind::Narrow(tile), rows, outputs, threads: 256, shared: 96 << 10 }
    }

    /// The largest blocks that are more than half full of rows and many enough for `processors`:
    /// large ones read weights and activations less often, small ones are done sooner.
    pub(super) fn of(rows: usize, outputs: usize, processors: usize) -> Self {
        let blocks = |tiling: Self| rows.div_ceil(tiling.rows) * outputs.div_ceil(tiling.outputs);
        match rows {
            65.. if blocks(Self::WIDE) >= processors => Self::WIDE,
            33.. if blocks(Self::MIDDLE) >= processors.div_ceil(2) => Self::MIDDLE,
            17.. => Self::NARROW[2],
            _ if blocks(Self::NARROW[1]) >= processors => Self::NARROW[1],
            _ => Self::NARROW[0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tiling;

    #[test]
    fn blocks_are_as_large_as_fills_the_device() {
        let h200 = |rows, outputs| Tiling::of(rows, outputs, 132);
        assert_eq!(h200(1, 768), Tiling::NARROW[0]);
        assert_eq!(h200(16, 32_000), Tiling::NARROW[1]);
        assert_eq!(h200(64, 768), Tiling::NARROW[2]);
        assert_eq!(h200(64, 32_000), Tiling::MIDDLE);
        assert_eq!(h200(512, 768), Tiling::MIDDLE);
        assert_eq!(h200(2048, 2048), Tiling::WIDE);
    }
}
