//! What a GPU must be able to do for [`super::Gpu`]: hold memory and run kernels.

use super::kernel::Kernel;
use crate::backend::DeviceError;

/// What memory is for. All memory of a role lies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Weights, as long as the model lives.
    Weights,
    /// Activations and the inputs of a step.
    Scratch,
    Cache,
    /// What is given back soon, or grows: raw weights on their way, lists of a step.
    Staging,
}

/// A device that holds memory and runs kernels, in the order of the calls.
///
/// Kernels may still be under way when [`Driver::run`] returns; what they do is seen by whatever is
/// requested later.
pub trait Driver {
    /// A piece of the device's memory, given back when dropped.
    type Memory: Memory;
    /// A copy from the device that was begun. It may be dropped before it is done.
    type Download: Send;

    /// `bytes` zeros, aligned to 256 bytes.
    fn alloc(&self, role: Role, bytes: usize) -> Result<Self::Memory, DeviceError>;
    /// Copies `from` to the device, `offset` bytes into `to`.
    fn upload(&self, from: &[u8], to: &Self::Memory, offset: usize) -> Result<(), DeviceError>;
    /// Runs kernels one after the other. The same list again may be run as one graph. Fails, and runs
    /// none, if one fails [`Launch::check`].
    fn run(&self, launches: &[Launch]) -> Result<(), DeviceError>;
    /// Copies from the device, `offset` bytes into `from`, when all before it is done.
    fn download(
        &self,
        from: &Self::Memory,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), DeviceError>;
    /// Begins to copy `bytes` bytes from the device, `offset` bytes into `from`, as they are when all before it is done.
    fn begin_download(
        &self,
        from: &Self::Memory,
        offset: usize,
        bytes: usize,
    ) -> Result<Self::Download, DeviceError>;
    /// Waits for a copy, and for nothing that was begun after it; `to` is as long as the copy.
    fn end_download(&self, copy: Self::Download, to: &mut [u8]) -> Result<(), DeviceError>;
    /// Blocks of a kernel that run at once without sharing a processor. Decides how finely work is
    /// cut, never what comes out of it.
    fn processors(&self) -> usize {
        132
    }
    /// Bytes of shared memory that a block may have, [`SHARED_LEAST`] or more. Decides how work is cut
    /// as well, and nothing else.
    fn shared_per_block(&self) -> usize {
        SHARED_LEAST
    }
    /// Which GEMM implementation is used. With [`GemmBackend::CublasLt`] the driver runs [`Kernel::Product`] as it likes,
    /// as long as it adds in the same order whatever the number of rows.
    fn gemm(&self) -> GemmBackend {
        GemmBackend::Builtin
    }
}

/// Bytes of shared memory that a block may have on every GPU that can run the kernels: the 99 KiB of
/// compute capability 8.6, 8.9 and 12.0.
pub const SHARED_LEAST: usize = 99 << 10;

/// The GEMM implementation for activations and weights of 16 bits. Other types always use the built-in
/// kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GemmBackend {
    /// The built-in kernels, with which a row has the same bits in any batch.
    #[default]
    Builtin,
    /// NVIDIA's cuBLASLt, by one algorithm for each matrix that splits no sum; that a row has the same
    /// bits in any batch is then up to that library.
    CublasLt,
}

/// A piece of a device's memory.
pub trait Memory: Send + Sync {
    /// Where it begins on the device.
    fn address(&self) -> u64;
    /// How long it is.
    fn bytes(&self) -> usize;
}

/// Most arguments of a kernel.
pub const ARGS_MAX: usize = 32;

/// A kernel with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    pub kernel: Kernel,
    /// Blocks in x, y, z; none is 0.
    pub grid: [u32; 3],
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// One cell per argument: an address, or a number of 4 or 8 bytes in the low bytes.
    pub args: Vec<u64>,
    /// A number that was to be passed in 32 bits and does not fit.
    too_large: Option<usize>,
}

impl Launch {
    /// A kernel without arguments yet.
    pub fn new(kernel: Kernel, grid: [usize; 3], threads: usize) -> Self {
        let args = Vec::with_capacity(16);
        let mut launch =
            Self { kernel, grid: [0; 3], threads: 0, shared: 0, args, too_large: None };
        launch.grid = grid.map(|blocks| launch.fit(blocks));
        launch.threads = launch.fit(threads);
        launch
    }

    /// Fails if a number does not fit the 32 bits that a kernel reads it in.
    pub fn check(&self) -> Result<(), DeviceError> {
        match self.too_large {
            None => Ok(()),
            Some(number) => Err(DeviceError::Failed(format!(
                "`{}` is to be told {number}, and numbers end at {} there; make smaller passes with \
                 `max_batch_tokens` and `max_num_seqs`",
                self.kernel.name(),
                u32::MAX
            ))),
        }
    }

    fn fit(&mut self, number: usize) -> u32 {
        u32::try_from(number).unwrap_or_else(|_| {
            self.too_large = Some(number);
            u32::MAX
        })
    }

    /// With dynamic shared memory.
    #[must_use]
    pub fn shared(mut self, bytes: usize) -> Self {
        self.shared = self.fit(bytes);
        self
    }

    /// The next argument: where `memory` begins.
    #[must_use]
    pub fn at(self, memory: &impl Memory) -> Self {
        self.cell(memory.address())
    }

    /// The next argument: where `memory` begins, or null.
    #[must_use]
    pub fn at_or_null<M: Memory>(self, memory: Option<&M>) -> Self {
        self.cell(memory.map_or(0, Memory::address))
    }

    /// The next argument: an address, or an integer of 64 bits.
    #[must_use]
    pub fn cell(mut self, cell: u64) -> Self {
        self.args.push(cell);
        self
    }

    /// The next argument: an integer of 32 bits.
    #[must_use]
    pub fn u32(mut self, number: usize) -> Self {
        let number = self.fit(number);
        self.cell(u64::from(number))
    }

    /// The next argument: a float of 32 bits.
    #[must_use]
    pub fn f32(self, number: f32) -> Self {
        self.cell(u64::from(number.to_bits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_is_an_error() {
        let large = u32::MAX as usize + 1;
        let launch = || Launch::new(Kernel::Embed, [1, 2, 3], 64).u32(u32::MAX as usize);
        assert_eq!(launch().shared(1).check(), Ok(()));
        let wrong = [
            Launch::new(Kernel::Embed, [1, large, 1], 64),
            Launch::new(Kernel::Embed, [1, 1, 1], large),
            launch().shared(large),
            launch().u32(large).u32(1),
        ];
        for launch in wrong {
            let error = launch.check().unwrap_err().to_string();
            assert!(error.contains("`embed` is to be told 4294967296"), "{error}");
        }
    }
}
