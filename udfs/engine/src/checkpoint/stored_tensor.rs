//! One tensor of a checkpoint, where it lies: nothing is copied before a backend packs it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};

/// Types of stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// bfloat16.
    Bf16,
}

/// A tensor in little-endian bytes that somebody else keeps, most often a mapped file.
#[derive(Clone)]
pub struct StoredTensor {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
    dtype: Dtype,
    shape: Vec<usize>,
}

impl Dtype {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

impl StoredTensor {
    /// The tensor in `range` of `bytes`; `None` if the range is outside or does not fit the shape.
    pub fn new(
        bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
        range: Range<usize>,
        dtype: Dtype,
        shape: Vec<usize>,
    ) -> Option<Self> {
        let count = shape.iter().try_fold(1_usize, |count, &n| count.checked_mul(n))?;
        let fits = count.checked_mul(dtype.bytes())? == range.len()
            && (*bytes).as_ref().get(range.clone()).is_some();
        fits.then_some(Self { bytes, range, dtype, shape })
    }

    /// A tensor of its own.
    pub fn from_f32(values: &[f32], shape: Vec<usize>) -> Option<Self> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let range = 0..bytes.len();
        Self::new(Arc::new(bytes), range, Dtype::F32, shape)
    }

    /// Its sizes, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How its numbers are stored.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Rows, if the last dimension is a row.
    pub fn rows(&self) -> usize {
        self.shape[..self.shape.len().saturating_sub(1)].iter().product()
    }

    /// Length of a row.
    pub fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Its numbers as they are stored.
    pub fn bytes(&self) -> &[u8] {
        &(*self.bytes).as_ref()[self.range.clone()]
    }

    /// Writes row `row` to `out`, which has the row's length.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let start = row * self.width();
        self.read(start..start + self.width(), out);
    }

    /// All numbers.
    pub fn values(&self) -> Vec<f32> {
        let count = self.range.len() / self.dtype.bytes();
        let mut out = vec![0.0; count];
        self.read(0..count, &mut out);
        out
    }

    fn read(&self, numbers: Range<usize>, out: &mut [f32]) {
        let size = self.dtype.bytes();
        let bytes = &self.bytes()[numbers.start * size..numbers.end * size];
        match self.dtype {
            Dtype::F32 => {
                for (out, &bytes) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *out = f32::from_le_bytes(bytes);
                }
            }
            Dtype::F16 => {
                for (out, &bytes) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *out = f16::from_le_bytes(bytes).to_f32();
                }
            }
            Dtype::Bf16 => {
                for (out, &bytes) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *out = bf16::from_le_bytes(bytes).to_f32();
                }
            }
        }
    }
}

impl fmt::Debug for StoredTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.dtype, self.shape)
    }
}
