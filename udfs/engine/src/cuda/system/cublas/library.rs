//! The library's handles, and the algorithms that are requested of it.

use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use cudarc::cublaslt::result::CublasError;
use cudarc::cublaslt::sys;

use super::super::failure::panicked;
use super::super::matmul_algorithms::AlgorithmPlanner;
use crate::backend::DeviceError;
use crate::cuda::gemm::Shape;

/// Memory for whatever an algorithm needs beside its arguments.
pub(super) const WORKSPACE_BYTES: usize = 32 << 20;
/// Rows, weights and results begin at multiples of so many bytes: all strides are multiples of 32
/// numbers.
pub(super) const ALIGN: usize = 64;
/// Rows for which an algorithm is the fastest: those of a step of a GPU's usual number of answers.
const ROWS_NOMINAL: usize = 256;
/// Rows for which it must work beside.
const ROWS_CHECKED: [usize; 5] = [1, 16, 64, 1024, 4096];
/// Algorithms to choose from.
const ALGORITHMS_MAX: usize = 16;

/// The library's handle, and what all products have in common.
pub(super) struct Library {
    /// What a product is: weights transposed, f32 sums.
    pub(super) description: Owned<sys::cublasLtMatmulDesc_t>,
    /// Which algorithms may be chosen.
    preference: Owned<sys::cublasLtMatmulPreference_t>,
    pub(super) handle: Owned<sys::cublasLtHandle_t>,
}

/// How a product's arguments lie. To cuBLASLt, whose matrices have columns one after the other, rows
/// of ours are columns.
pub(super) struct Layouts {
    pub(super) weights: Owned<sys::cublasLtMatrixLayout_t>,
    pub(super) x: Owned<sys::cublasLtMatrixLayout_t>,
    pub(super) out: Owned<sys::cublasLtMatrixLayout_t>,
}

#[expect(unsafe_code, reason = "functions of C")]
impl Library {
    /// A handle for the context that is this thread's.
    pub(super) fn new() -> Result<Self, CublasError> {
        use sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA;
        use sys::cublasLtMatmulPreferenceAttributes_t as Preference;
        // SAFETY: the pointer is to a handle.
        let handle = Owned::new(|to| unsafe { sys::cublasLtCreate(to) }, sys::cublasLtDestroy)?;
        let (sums, scale) =
            (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F);
        let description = Owned::new(
            // SAFETY: the pointer is to a descriptor.
            |to| unsafe { sys::cublasLtMatmulDescCreate(to, sums, scale) },
            sys::cublasLtMatmulDescDestroy,
        )?;
        // `CUBLAS_OP_T` of a header that the bindings leave out.
        let transposed = 1_i32;
        // SAFETY: the descriptor lives, and the attribute is an integer of the size that is said.
        unsafe {
            let (from, bytes) = ((&raw const transposed).cast(), size_of_val(&transposed));
            let attribute = CUBLASLT_MATMUL_DESC_TRANSA;
            sys::cublasLtMatmulDescSetAttribute(description.raw, attribute, from, bytes)
                .result()?;
        }
        let preference = Owned::new(
            // SAFETY: the pointer is to a preference.
            |to| unsafe { sys::cublasLtMatmulPreferenceCreate(to) },
            sys::cublasLtMatmulPreferenceDestroy,
        )?;
        // SAFETY: the preference lives, and its callers below give an attribute of the size that they say.
        let prefer = |attribute, from: *const c_void, bytes| unsafe {
            sys::cublasLtMatmulPreferenceSetAttribute(preference.raw, attribute, from, bytes)
                .result()
        };
        let room = WORKSPACE_BYTES;
        let attribute = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        prefer(attribute, (&raw const room).cast(), size_of_val(&room))?;
        // No sum is cut in parts that are added up later.
        let none = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_NONE as u32;
        let attribute = Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
        prefer(attribute, (&raw const none).cast(), size_of_val(&none))?;
        for attribute in [
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            let align = ALIGN as u32;
            prefer(attribute, (&raw const align).cast(), size_of_val(&align))?;
        }
        Ok(Self { description, preference, handle })
    }

    /// How the arguments of `rows` rows lie.
    fn lie(shape: Shape, rows: usize) -> Result<Layouts, CublasError> {
        let Shape { n, depth, x_stride, out_stride } = shape;
        let layout = |kind, height: usize, columns: usize, stride: usize| {
            let make = |to: *mut _| {
                let (height, columns, stride) = (height as u64, columns as u64, stride as i64);
                // SAFETY: the pointer is to a handle.
                unsafe { sys::cublasLtMatrixLayoutCreate(to, kind, height, columns, stride) }
            };
            Owned::new(make, sys::cublasLtMatrixLayoutDestroy)
        };
        let (half, float) = (sys::cudaDataType::CUDA_R_16BF, sys::cudaDataType::CUDA_R_32F);
        Ok(Layouts {
            weights: layout(half, depth, n, depth)?,
            x: layout(half, depth, rows, x_stride)?,
            out: layout(float, n, rows, out_stride)?,
        })
    }

    /// The algorithms that the library would take for `layouts`, the best first.
    fn candidates(&self, layouts: &Layouts) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, CublasError> {
        let (mut found, mut count) = ([NOTHING_FOUND; ALGORITHMS_MAX], 0);
        // SAFETY: all handles live, and there is room for as many results as are requested.
        unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle.raw,
                self.description.raw,
                layouts.weights.raw,
                layouts.x.raw,
                layouts.out.raw,
                layouts.out.raw,
                self.preference.raw,
                ALGORITHMS_MAX as i32,
                found.as_mut_ptr(),
                &raw mut count,
            )
        }
        .result()?;
        let found = found.iter().take(count.unsigned_abs() as usize);
        Ok(found.filter(|found| found.state.result().is_ok()).map(|found| found.algo).collect())
    }

    /// Whether an algorithm sums every output as one.
    fn sums_whole(algorithm: &sys::cublasLtMatmulAlgo_t) -> Result<bool, CublasError> {
        use sys::cublasLtMatmulAlgoConfigAttributes_t as Config;
        let ask = |attribute| {
            let (mut value, mut written) = (0_u32, 0);
            let to = (&raw mut value).cast();
            // SAFETY: both attributes are numbers of 32 bits.
            unsafe {
                let bytes = size_of_val(&value);
                let written = &raw mut written;
                sys::cublasLtMatmulAlgoConfigGetAttribute(algorithm, attribute, to, bytes, written)
            }
            .result()
            .map(|()| value)
        };
        let parts = ask(Config::CUBLASLT_ALGO_CONFIG_SPLITK_NUM)?;
        let scheme = ask(Config::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)?;
        Ok(parts <= 1 && scheme == 0)
    }

    /// Fails unless the algorithm can multiply what lies so.
    fn check(
        &self,
        layouts: &Layouts,
        algorithm: &sys::cublasLtMatmulAlgo_t,
    ) -> Result<(), CublasError> {
        let mut found = NOTHING_FOUND;
        // SAFETY: all handles live.
        unsafe {
            sys::cublasLtMatmulAlgoCheck(
                self.handle.raw,
                self.description.raw,
                layouts.weights.raw,
                layouts.x.raw,
                layouts.out.raw,
                layouts.out.raw,
                algorithm,
                &raw mut found,
            )
        }
        .result()?;
        found.state.result()?;
        if found.workspaceSize > WORKSPACE_BYTES {
            return Err(CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED));
        }
        Ok(())
    }
}

/// What the library overwrites when it finds an algorithm.
const NOTHING_FOUND: sys::cublasLtMatmulHeuristicResult_t = sys::cublasLtMatmulHeuristicResult_t {
    algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
    workspaceSize: 0,
    state: sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
    wavesCount: 0.0,
    reserved: [0; 4],
};

impl AlgorithmPlanner for Library {
    type Algorithm = sys::cublasLtMatmulAlgo_t;
    type Layouts = Layouts;

    fn choose(&self, shape: Shape) -> Result<sys::cublasLtMatmulAlgo_t, DeviceError> {
        guarded(&format!("choosing how to multiply {shape:?}"), || {
            let others = ROWS_CHECKED.map(|rows| Self::lie(shape, rows));
            let others = others.into_iter().collect::<Result<Vec<_>, _>>()?;
            let nominal = Self::lie(shape, ROWS_NOMINAL)?;
            for algorithm in self.candidates(&nominal)? {
                let works = |layouts| self.check(layouts, &algorithm).is_ok();
                if Self::sums_whole(&algorithm)? && others.iter().all(works) {
                    return Ok(algorithm);
                }
            }
            Err(CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED))
        })
    }

    fn layouts(
        &self,
        shape: Shape,
        algorithm: &sys::cublasLtMatmulAlgo_t,
        rows: usize,
    ) -> Result<Layouts, DeviceError> {
        guarded(&format!("preparing to multiply {rows} rows and {shape:?}"), || {
            let layouts = Self::lie(shape, rows)?;
            self.check(&layouts, algorithm)?;
            Ok(layouts)
        })
    }
}

/// A handle of the library, given back when dropped.
pub(super) struct Owned<T: Copy> {
    pub(super) raw: T,
    destroy: unsafe fn(T) -> sys::cublasStatus_t,
}

impl<T: Copy> Owned<*mut T> {
    fn new(
        make: impl FnOnce(*mut *mut T) -> sys::cublasStatus_t,
        destroy: unsafe fn(*mut T) -> sys::cublasStatus_t,
    ) -> Result<Self, CublasError> {
        let mut raw = ptr::null_mut();
        make(&raw mut raw).result()?;
        Ok(Self { raw, destroy })
    }
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a handle of C")]
        // SAFETY: it was made by the function that belongs to this one, and nothing else destroys
        // it. Nothing is to be done where that fails.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

/// Calls the bindings, which panic where the library lacks a function.
pub(super) fn guarded<T>(
    doing: &str,
    call: impl FnOnce() -> Result<T, CublasError>,
) -> Result<T, DeviceError> {
    let called = panic::catch_unwind(AssertUnwindSafe(call));
    let why = match called {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(CublasError(status))) => format!("cuBLASLt returned {status:?}"),
        Err(panic) => panicked(&*panic),
    };
    Err(DeviceError::Failed(format!(
        "while {doing}, {why}; leaving `gemm` out does without this library"
    )))
}
