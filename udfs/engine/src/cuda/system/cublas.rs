//! Products by NVIDIA's cuBLASLt.

mod library;

use std::cell::RefCell;
use std::env;
use std::ffi::{OsString, c_void};
use std::path::Path;
use std::sync::Arc;

use cudarc::cublaslt::sys;

use super::locate;
use super::matmul_algorithms::AlgorithmCache;
use super::memory::Slab;
use super::stream::Stream;
use crate::backend::DeviceError;
use crate::cuda::gemm::Multiplication;
use library::{ALIGN, Library, WORKSPACE_BYTES, guarded};

/// cuBLASLt, opened.
pub(super) struct CublasLt {
    algorithms: RefCell<AlgorithmCache<Library>>,
    library: Library,
    workspace: Slab,
    stream: Arc<Stream>,
}

#[expect(unsafe_code, reason = "the bindings leave it open who uses a handle")]
// SAFETY: cuBLASLt's handles and descriptors belong to no thread. They have one owner, who is not
// `Sync`, and who binds the context before it uses or drops them.
unsafe impl Send for CublasLt {}

impl CublasLt {
    /// Opens it for a stream, which is bound to this thread, or says why not.
    pub(super) fn open(stream: &Arc<Stream>) -> Result<Self, DeviceError> {
        find(|name| env::var_os(name))?;
        let library = guarded("opening cuBLASLt", Library::new)?;
        let workspace = Slab::new(stream, WORKSPACE_BYTES)?;
        Ok(Self { algorithms: RefCell::default(), library, workspace, stream: Arc::clone(stream) })
    }

    /// Puts a product on the stream.
    pub(super) fn multiply(&self, product: &Multiplication) -> Result<(), DeviceError> {
        let &Multiplication { x, weights, out, rows, shape } = product;
        if [x, weights, out].iter().any(|address| address % ALIGN as u64 != 0) {
            return Err(DeviceError::Failed(format!("a product is not aligned: {product:?}")));
        }
        let algorithms = &mut *self.algorithms.borrow_mut();
        let (algorithm, layouts) = algorithms.plan(&self.library, shape, rows)?;
        let (one, zero) = (1.0_f32, 0.0_f32);
        guarded("multiplying", || {
            let pointer = |address: u64| address as *mut c_void;
            #[expect(unsafe_code, reason = "a function of C")]
            // SAFETY: all handles live. The layouts are of memory that the caller has at these
            // addresses and gives back on this stream, hence after the product; the workspace is
            // used by this stream alone, and as large as is said. The two factors are read before
            // the function returns.
            unsafe {
                sys::cublasLtMatmul(
                    self.library.handle.raw,
                    self.library.description.raw,
                    (&raw const one).cast(),
                    pointer(weights),
                    layouts.weights.raw,
                    pointer(x),
                    layouts.x.raw,
                    (&raw const zero).cast(),
                    pointer(out),
                    layouts.out.raw,
                    pointer(out),
                    layouts.out.raw,
                    algorithm,
                    pointer(self.workspace.address()),
                    WORKSPACE_BYTES,
                    self.stream.stream().cu_stream().cast(),
                )
            }
            .result()
        })
    }
}

/// Finds the library and sees that it can be opened by its name.
fn find(variable: impl Fn(&str) -> Option<OsString>) -> Result<(), DeviceError> {
    if present() {
        return Ok(());
    }
    if let Some(library) = locate::cublaslt(variable, Path::new("/usr/local")) {
        locate::open(&library);
    }
    if present() {
        return Ok(());
    }
    Err(DeviceError::Failed(
        "`gemm: cublaslt` needs NVIDIA's library libcublasLt.so.13 or libcublasLt.so.12, which is \
         not found; install CUDA's libraries and let `CUDA_HOME` name their folder, install them \
         into a Python environment that is active, or leave `gemm` out"
            .to_owned(),
    ))
}

/// Whether the library can be opened by its name.
fn present() -> bool {
    #[expect(unsafe_code, reason = "opens a library, which runs its initialisers")]
    // SAFETY: NVIDIA's library is made to be opened by any program.
    unsafe {
        sys::is_culib_present()
    }
}
