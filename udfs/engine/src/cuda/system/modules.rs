//! The compiled kernels: loaded, and each looked up by its name.

use cudarc::driver::sys::{self, CUfunction_attribute};
use cudarc::driver::{CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::Ptx;

use super::failure::{failed, said};
use super::source::{PTX, fits};
use super::stream::Stream;
use crate::backend::DeviceError;
use crate::cuda::driver::{ARGS_MAX, Launch};
use crate::cuda::kernel::Kernel;

/// A kernel that can be launched.
pub(super) struct Function {
    function: CudaFunction,
    limits: Limits,
}

/// What a kernel can be launched with.
#[derive(Clone, Copy, Debug)]
struct Limits {
    arguments: usize,
    threads: u32,
    shared: u32,
}

/// All kernels, in the order of [`Kernel::ALL`].
pub(super) struct Functions(Vec<Function>);

impl Functions {
    /// Loads them from the PTX of this program, which the driver compiles for the GPU; `shared` are
    /// the bytes of shared memory that a block may have.
    pub(super) fn load(stream: &Stream, shared: usize) -> Result<Self, DeviceError> {
        fits(PTX).map_err(DeviceError::Failed)?;
        let module = stream.context().load_module(Ptx::from_src(PTX));
        let module = module.map_err(|error| failed("compiling the PTX", error))?;
        let all = Kernel::ALL.into_iter().map(|kernel| Function::new(&module, kernel, shared));
        Ok(Self(all.collect::<Result<_, _>>()?))
    }

    /// The kernel of a launch, if it can be launched so.
    pub(super) fn of(&self, launch: &Launch) -> Result<&CudaFunction, DeviceError> {
        let Function { function, limits } = &self.0[launch.kernel as usize];
        limits.admit(launch).map_err(DeviceError::Failed)?;
        Ok(function)
    }
}

impl Function {
    fn new(
        module: &std::sync::Arc<CudaModule>,
        kernel: Kernel,
        shared: usize,
    ) -> Result<Self, DeviceError> {
        let name = kernel.name();
        let function = module.load_function(name).map_err(|error| {
            let why = said(error);
            DeviceError::Failed(format!("the compiled kernels have no `{name}`: {why}"))
        })?;
        let limits = || -> Result<Limits, DriverError> {
            let free = shared as i32 - function.shared_size_bytes()?;
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(attribute, free)?;
            Ok(Limits {
                arguments: arguments(&function)?,
                threads: function.max_threads_per_block()?.unsigned_abs(),
                shared: free.unsigned_abs(),
            })
        };
        let limits = limits().map_err(|error| failed(&format!("preparing `{name}`"), error))?;
        Ok(Self { function, limits })
    }
}

impl Limits {
    fn admit(self, launch: &Launch) -> Result<(), String> {
        let name = launch.kernel.name();
        if launch.args.len() != self.arguments {
            let (given, taken) = (launch.args.len(), self.arguments);
            return Err(format!("`{name}` is given {given} arguments and takes {taken}"));
        }
        if launch.threads > self.threads {
            let (wanted, most) = (launch.threads, self.threads);
            return Err(format!(
                "`{name}` is asked for {wanted} threads in a block of up to {most}"
            ));
        }
        if launch.shared > self.shared {
            let (wanted, most) = (launch.shared, self.shared);
            return Err(format!(
                "`{name}` needs {wanted} bytes of shared memory and this GPU gives it {most}"
            ));
        }
        Ok(())
    }
}

/// How many arguments a kernel takes: the driver would read as many whatever it is given.
fn arguments(function: &CudaFunction) -> Result<usize, DriverError> {
    for index in 0..=ARGS_MAX {
        let (mut offset, mut bytes) = (0, 0);
        #[expect(unsafe_code, reason = "the bindings have no safe form of it")]
        // SAFETY: the function lives, and the pointers are to numbers that do.
        let status = unsafe {
            sys::cuFuncGetParamInfo(function.cu_function(), index, &raw mut offset, &raw mut bytes)
        };
        match status.result() {
            Ok(()) => {}
            Err(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE)) => return Ok(index),
            Err(error) => return Err(error),
        }
    }
    Ok(ARGS_MAX + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_that_the_kernel_cannot_take_is_refused() {
        let limits = Limits { arguments: 2, threads: 256, shared: 1024 };
        let launch = |threads, shared| {
            Launch::new(Kernel::Embed, [1, 1, 1], threads).shared(shared).cell(1).u32(2)
        };
        assert_eq!(limits.admit(&launch(256, 1024)), Ok(()));
        let refused = |launch: Launch| limits.admit(&launch).unwrap_err();
        assert!(refused(launch(256, 0).f32(1.0)).contains("given 3 arguments and takes 2"));
        assert!(refused(launch(257, 0)).contains("257 threads"));
        assert!(refused(launch(256, 1025)).contains("`embed` needs 1025 bytes"));
    }
}
