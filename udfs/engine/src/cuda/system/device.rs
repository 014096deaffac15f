//! A GPU of the system.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute;

use super::arena::Arena;
use super::copies::{Downloads, Uploads};
use super::cublas::CublasLt;
use super::failure::panicked;
use super::graphs::{GraphCounts, Graphs};
use super::line::Line;
use super::memory::{Piece, Slab};
use super::modules::{Functions, KernelSource};
use super::player::{Graph, Stage};
use super::probe::{GpuInfo, NoGpu, gpus};
use crate::backend::DeviceError;
use crate::cuda::driver::{Driver, Launch, Products, Role};

/// A GPU with its memory and its kernels. One thread uses it at a time, but not always the same: it
/// can be handed to the thread that computes when the weights are loaded.
pub struct System {
    line: Arc<Line>,
    functions: Functions,
    source: KernelSource,
    processors: usize,
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
    graphs: Graphs<Graph>,
}

/// Why a GPU cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenGpuError {
    /// There is none.
    #[error(transparent)]
    NoGpu(#[from] NoGpu),
    #[error("there is no GPU {index} that can run the kernels; there is {found}")]
    NotThisOne { index: usize, found: String },
    /// It does not work.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl System {
    /// Opens GPU `index`. `cache` is a folder in which compiled kernels are kept; it is made when it
    /// is needed. Fails if cuBLASLt is to multiply and is not installed.
    pub fn open(index: usize, cache: &Path, products: Products) -> Result<Self, OpenGpuError> {
        let all = gpus()?;
        let Some(gpu) = all.iter().find(|gpu| gpu.index == index) else {
            let name = |gpu: &GpuInfo| format!("{}: {}", gpu.index, gpu.name);
            let found = all.iter().map(name).collect::<Vec<_>>().join(", ");
            return Err(OpenGpuError::NotThisOne { index, found });
        };
        // The bindings panic where the driver lacks a function.
        let opened = panic::catch_unwind(AssertUnwindSafe(|| Self::prepare(gpu, cache, products)));
        opened
            .unwrap_or_else(|panic| Err(DeviceError::Failed(panicked(&*panic))))
            .map_err(Into::into)
    }

    fn prepare(gpu: &GpuInfo, cache: &Path, products: Products) -> Result<Self, DeviceError> {
        let line = Arc::new(Line::open(gpu.index)?);
        let (functions, source) = Functions::load(&line, gpu.capability, cache)?;
        let processors = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let processors = line.attribute(processors)?.unsigned_abs() as usize;
        let state = State {
            weights: Arena::default(),
            scratch: Arena::default(),
            cache: Arena::default(),
            uploads: Uploads::new(&line)?,
            downloads: Downloads::new(&line)?,
            graphs: Graphs::default(),
        };
        let cublas = match products {
            Products::Own => None,
            Products::CublasLt => Some(CublasLt::open(&line)?),
        };
        Ok(Self { line, functions, source, processors, state: RefCell::new(state), cublas })
    }

    /// What its code was made of.
    pub fn kernels(&self) -> &KernelSource {
        &self.source
    }

    /// Bytes of its memory that nobody uses, this program's other models and other programs counted.
    pub fn free_bytes(&self) -> Result<usize, DeviceError> {
        self.line.free_bytes()
    }

    /// How its launches were made so far.
    pub fn graphs(&self) -> GraphCounts {
        self.state.borrow().graphs.counts().clone()
    }
}

impl Driver for System {
    type Memory = Piece;

    fn alloc(&self, role: Role, bytes: usize) -> Result<Piece, DeviceError> {
        self.line.bind()?;
        let state = &mut *self.state.borrow_mut();
        let arena = match role {
            Role::Weights => &mut state.weights,
            Role::Scratch => &mut state.scratch,
            Role::Cache => &mut state.cache,
            Role::Staging => return Piece::pooled(&self.line, bytes),
        };
        let part = arena.take(bytes, |bytes| Slab::new(&self.line, bytes))?;
        Ok(Piece::of_slab(part, bytes))
    }

    fn upload(&self, from: &[u8], to: &Piece, offset: usize) -> Result<(), DeviceError> {
        let address = to.part(offset, from.len())?;
        self.line.bind()?;
        self.state.borrow_mut().uploads.copy(&self.line, from, address)
    }

    fn run(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        self.line.bind()?;
        let (functions, cublas) = (&self.functions, self.cublas.as_ref());
        let stage = Stage { line: &self.line, functions, cublas };
        self.state.borrow_mut().graphs.run(&stage, launches)
    }

    fn download(&self, from: &Piece, offset: usize, to: &mut [u8]) -> Result<(), DeviceError> {
        let address = from.part(offset, to.len())?;
        self.line.bind()?;
        self.state.borrow_mut().downloads.copy(&self.line, address, to)
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn products(&self) -> Products {
        match self.cublas {
            Some(_) => Products::CublasLt,
            None => Products::Own,
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // The GPU may still read the buffers of uploads, which go next.
        self.line.bind_anyway();
        self.line.context().record_err(self.line.stream().synchronize());
    }
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "System(kernels: {})", self.source)
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
        let cache = tempfile::tempdir().unwrap();
        match System::open(1 << 20, cache.path(), Products::Own) {
            Ok(_) => panic!("nobody has so many GPUs"),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
}
