//! A GPU of the system.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUdevice_attribute;

use super::arena::Arena;
use super::copies::{Downloads, Landings, PendingCopy, Uploads};
use super::cublas::CublasLt;
use super::failure::panicked;
use super::graphs::{GraphCounts, Graphs};
use super::launcher::{Graph, StreamLauncher};
use super::memory::{Piece, Slab};
use super::modules::Functions;
use super::probe::{ProbeError, ProbedGpu, gpus};
use super::stream::Stream;
use crate::backend::DeviceError;
use crate::cuda::driver::{Driver, GemmBackend, Launch, Role, SHARED_LEAST};

/// A GPU with its memory and its kernels. One thread uses it at a time, but not always the same: it
/// can be handed to the thread that computes when the weights are loaded.
pub struct System {
    stream: Arc<Stream>,
    functions: Functions,
    capability: (u32, u32),
    processors: usize,
    /// Bytes of shared memory that a block may have.
    shared: usize,
    state: RefCell<State>,
    /// What multiplies, if that is not the kernels.
    cublas: Option<CublasLt>,
}

/// What changes as it is used.
struct State {
    weights: Arena<Slab>,
    scratch: Arena<Slab>,
    cache: Arena<Slab>,
    uploads: Uploads,
    downloads: Downloads,
    landings: Landings,
    graphs: Graphs<Graph>,
}

/// Why a GPU cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenGpuError {
    /// There is none.
    #[error(transparent)]
    ProbeError(#[from] ProbeError),
    #[error("there is no GPU {index} that can run the kernels; there is {found}")]
    NotThisOne { index: usize, found: String },
    /// It does not work.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl System {
    /// Opens GPU `index`. Fails if cuBLASLt is to multiply and is not installed.
    pub fn open(index: usize, gemm: GemmBackend) -> Result<Self, OpenGpuError> {
        let all = gpus()?;
        let Some(gpu) = all.iter().find(|gpu| gpu.index == index) else {
            let name = |gpu: &ProbedGpu| format!("{}: {}", gpu.index, gpu.name);
            let found = all.iter().map(name).collect::<Vec<_>>().join(", ");
            return Err(OpenGpuError::NotThisOne { index, found });
        };
        // The bindings panic where the driver lacks a function.
        let opened = panic::catch_unwind(AssertUnwindSafe(|| Self::prepare(gpu, gemm)));
        opened
            .unwrap_or_else(|panic| Err(DeviceError::Failed(panicked(&*panic))))
            .map_err(Into::into)
    }

    fn prepare(gpu: &ProbedGpu, gemm: GemmBackend) -> Result<Self, DeviceError> {
        use CUdevice_attribute as Attribute;
        let stream = Arc::new(Stream::open(gpu.index)?);
        let number = |attribute| -> Result<usize, DeviceError> {
            Ok(stream.attribute(attribute)?.unsigned_abs() as usize)
        };
        let processors = number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared = number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        if shared < SHARED_LEAST {
            return Err(DeviceError::Failed(format!(
                "{} gives a block {shared} bytes of shared memory; the kernels need {SHARED_LEAST}",
                gpu.name
            )));
        }
        let functions = Functions::load(&stream, shared)?;
        let state = State {
            weights: Arena::default(),
            scratch: Arena::default(),
            cache: Arena::default(),
            uploads: Uploads::new(&stream)?,
            downloads: Downloads::new(&stream)?,
            landings: Landings::default(),
            graphs: Graphs::default(),
        };
        let cublas = match gemm {
            GemmBackend::Builtin => None,
            GemmBackend::CublasLt => Some(CublasLt::open(&stream)?),
        };
        let state = RefCell::new(state);
        let capability = gpu.capability;
        Ok(Self { stream, functions, capability, processors, shared, state, cublas })
    }

    /// The same, telling `given_up` why launches are not recorded as graphs any more, as soon as that
    /// is so: another thread than the one that computes may look there.
    #[must_use]
    pub fn telling(mut self, given_up: Arc<OnceLock<String>>) -> Self {
        self.state.get_mut().graphs = Graphs::telling(given_up);
        self
    }

    /// Its compute capability, major and minor.
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Bytes of its free memory; what this program's other models and other programs use is not free.
    pub fn free_bytes(&self) -> Result<usize, DeviceError> {
        self.stream.free_bytes()
    }

    /// How its launches were made so far.
    pub fn graphs(&self) -> GraphCounts {
        self.state.borrow().graphs.counts()
    }
}

impl Driver for System {
    type Memory = Piece;
    type Download = PendingCopy;

    fn alloc(&self, role: Role, bytes: usize) -> Result<Piece, DeviceError> {
        self.stream.bind()?;
        let state = &mut *self.state.borrow_mut();
        let arena = match role {
            Role::Weights => &mut state.weights,
            Role::Scratch => &mut state.scratch,
            Role::Cache => &mut state.cache,
            Role::Staging => return Piece::pooled(&self.stream, bytes),
        };
        let part = arena.take(bytes, |bytes| Slab::new(&self.stream, bytes))?;
        Ok(Piece::of_slab(part, bytes))
    }

    fn upload(&self, from: &[u8], to: &Piece, offset: usize) -> Result<(), DeviceError> {
        let address = to.part(offset, from.len())?;
        self.stream.bind()?;
        self.state.borrow_mut().uploads.copy(&self.stream, from, address)
    }

    fn run(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        launches.iter().try_for_each(Launch::check)?;
        self.stream.bind()?;
        let (functions, cublas) = (&self.functions, self.cublas.as_ref());
        let stage = StreamLauncher { stream: &self.stream, functions, cublas };
        self.state.borrow_mut().graphs.run(&stage, launches)
    }

    fn download(&self, from: &Piece, offset: usize, to: &mut [u8]) -> Result<(), DeviceError> {
        let address = from.part(offset, to.len())?;
        self.stream.bind()?;
        self.state.borrow_mut().downloads.copy(&self.stream, address, to)
    }

    fn begin_download(
        &self,
        from: &Piece,
        offset: usize,
        bytes: usize,
    ) -> Result<PendingCopy, DeviceError> {
        let address = from.part(offset, bytes)?;
        self.stream.bind()?;
        self.state.borrow_mut().landings.begin(&self.stream, address, bytes)
    }

    fn end_download(&self, copy: PendingCopy, to: &mut [u8]) -> Result<(), DeviceError> {
        self.stream.bind()?;
        copy.end(to)
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn shared_per_block(&self) -> usize {
        self.shared
    }

    fn gemm(&self) -> GemmBackend {
        match self.cublas {
            Some(_) => GemmBackend::CublasLt,
            None => GemmBackend::Builtin,
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // The GPU may still read the buffers of uploads, which go next.
        self.stream.bind_anyway();
        self.stream.context().record_err(self.stream.stream().synchronize());
    }
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "System(compute capability {:?})", self.capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Gpu;

    #[test]
    fn a_system_can_be_handed_to_another_thread_and_its_memory_be_shared() {
        fn handed<T: Send>() {}
        fn shared<T: Send + Sync>() {}
        handed::<Gpu<System>>();
        shared::<Piece>();
    }

    #[test]
    fn where_there_is_no_gpu_it_says_so() {
        match System::open(1 << 20, GemmBackend::Builtin) {
            Ok(_) => panic!("no machine has so many GPUs"),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
}
