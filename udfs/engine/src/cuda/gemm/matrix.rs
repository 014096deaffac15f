//! Weight matrices on the device: brought as they are stored, packed there.

use crate::backend::{DeviceError, MatrixSource, Placement, Precision, check};
use crate::checkpoint::StoredTensor;
use crate::cuda::driver::{Driver, GemmBackend, Launch, Memory, Role};
use crate::cuda::kernel::Kernel;
use crate::cuda::memory::type_code;

/// Inputs that are read together; matrices are filled up to multiples of it with zeros.
pub(super) const TILE: usize = 32;
/// The same, of 8-bit weights.
pub(super) const TILE_INT8: usize = 64;
/// Inputs above which sums of products of bytes could overflow 32 bits.
const MAX_INT8_INPUTS: usize = 1 << 16;
/// Outputs of a group for the tensor cores.
const GROUP: usize = 16;
/// Outputs of a group for f32.
const GROUP_F32: usize = 64;
/// Outputs that a block of `pack_bf16` writes.
const PACKED_TOGETHER: usize = 8;
/// Bytes of stored weights that are on the device at a time, where they can be cut.
const PIECE_BYTES: usize = 64 << 20;
/// Threads of a block.
const THREADS: usize = 256;

/// A weight matrix `[n, k]`.
#[derive(Debug)]
pub struct Matrix<M> {
    n: usize,
    k: usize,
    pub(super) weights: Weights<M>,
}

/// The numbers, in the order in which products read them (`pack.cu` says which).
#[derive(Debug)]
pub(super) enum Weights<M> {
    F32(M),
    Bf16(M),
    /// bf16 for cuBLASLt.
    RowMajor(M),
    /// With what a byte of each output is worth.
    Int8(M, M),
}

impl<M: Memory> Matrix<M> {
    /// Brings a matrix to the device and packs it there.
    pub(in crate::cuda) fn new<D: Driver<Memory = M>>(
        driver: &D,
        source: &MatrixSource,
        precision: Precision,
    ) -> Result<Self, DeviceError> {
        let blocks = source.blocks.iter().map(StoredBlock::new).collect::<Result<Vec<_>, _>>()?;
        let k = check::inputs(blocks.iter().map(|block| block.k), source)?;
        check::expect(precision != Precision::Int8 || k <= MAX_INT8_INPUTS, || {
            format!(
                "a matrix with {k} inputs cannot be kept in int8 (at most {MAX_INT8_INPUTS}); use bf16 or \
                 f32"
            )
        })?;
        let n = blocks.iter().map(|block| block.n).sum();
        let tile = if precision == Precision::Int8 { TILE_INT8 } else { TILE };
        let room = |group: usize, bytes: usize| {
            let numbers =
                usize::next_multiple_of(n, group).saturating_mul(k.next_multiple_of(tile));
            driver.alloc(Role::Weights, numbers.saturating_mul(bytes))
        };
        let weights = match (precision, driver.gemm()) {
            (Precision::F32, _) => Weights::F32(room(GROUP_F32, size_of::<f32>())?),
            (Precision::Bf16, GemmBackend::Builtin) => {
                Weights::Bf16(room(GROUP, size_of::<u16>())?)
            }
            (Precision::Bf16, GemmBackend::CublasLt) => {
                Weights::RowMajor(room(1, size_of::<u16>())?)
            }
            (Precision::Int8, _) => {
                let scales = driver.alloc(Role::Weights, n * size_of::<f32>())?;
                Weights::Int8(room(GROUP, size_of::<i8>())?, scales)
            }
        };
        let matrix = Self { n, k, weights };
        let mut first = 0;
        for block in blocks {
            for piece in block.pieces() {
                let staging = driver.alloc(Role::Staging, piece.bytes.len())?;
                driver.upload(piece.bytes, &staging, 0)?;
                driver.run(&[matrix.packing(&piece, &staging, first)])?;
                first += piece.n;
            }
        }
        Ok(matrix)
    }

    /// Outputs.
    pub(in crate::cuda) fn n(&self) -> usize {
        self.n
    }

    /// Inputs.
    pub(in crate::cuda) fn k(&self) -> usize {
        self.k
    }

    /// Packs a piece whose first output is output `first` of the matrix.
    fn packing(&self, piece: &StoredBlock<'_>, staging: &M, first: usize) -> Launch {
        let (k, tiles) = (self.k, self.k.div_ceil(TILE));
        let groups = |outputs: usize| (first + piece.n - 1) / outputs - first / outputs + 1;
        let (kernel, grid) = match &self.weights {
            Weights::F32(_) => (Kernel::PackF32, [groups(GROUP_F32), k.div_ceil(4), 1]),
            Weights::Bf16(_) => {
                (Kernel::PackBf16, [groups(PACKED_TOGETHER), tiles.div_ceil(THREADS / 32), 1])
            }
            Weights::RowMajor(_) => (Kernel::PackPlain, [piece.n, k.div_ceil(THREADS), 1]),
            Weights::Int8(..) => (Kernel::PackInt8, [piece.n, 1, 1]),
        };
        let launch = Launch::new(kernel, grid, THREADS)
            .at(staging)
            .u32(type_code(piece.stored.dtype()))
            .cell(piece.output_step as u64)
            .cell(piece.input_step as u64)
            .u32(first)
            .u32(piece.n)
            .u32(k);
        match &self.weights {
            Weights::F32(packed) | Weights::Bf16(packed) | Weights::RowMajor(packed) => {
                launch.at(packed)
            }
            Weights::Int8(packed, scales) => launch.at(packed).at(scales),
        }
    }
}

/// Some outputs of a matrix as they are stored: number `(o, i)` at `o * output_step + i *
/// input_step` of `bytes`.
struct StoredBlock<'a> {
    stored: &'a StoredTensor,
    bytes: &'a [u8],
    n: usize,
    k: usize,
    output_step: usize,
    input_step: usize,
}

impl<'a> StoredBlock<'a> {
    fn new(placement: &'a Placement) -> Result<Self, DeviceError> {
        let (Placement::OutputsByInputs(stored) | Placement::InputsByOutputs(stored)) = placement;
        let &[rows, width] = stored.shape() else {
            let shape = stored.shape();
            return Err(DeviceError::Failed(format!(
                "expected a weight matrix of 2 dimensions, found the shape {shape:?}"
            )));
        };
        let (n, k, output_step, input_step) = match placement {
            Placement::OutputsByInputs(_) => (rows, width, width, 1),
            Placement::InputsByOutputs(_) => (width, rows, 1, width),
        };
        Ok(Self { stored, bytes: stored.bytes(), n, k, output_step, input_step })
    }

    /// The same outputs, some at a time if whole outputs lie together.
    fn pieces(self) -> Vec<Self> {
        if self.n == 0 {
            return Vec::new();
        }
        let output_bytes = self.output_step * self.stored.dtype().bytes();
        if self.input_step != 1 || self.output_step != self.k {
            return vec![self];
        }
        let outputs = (PIECE_BYTES / output_bytes).max(1);
        let pieces = self.bytes.chunks(outputs * output_bytes);
        pieces.map(|bytes| Self { bytes, n: bytes.len() / output_bytes, ..self }).collect()
    }
}
