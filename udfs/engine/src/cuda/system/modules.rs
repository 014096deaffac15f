//! The compiled kernels: loaded, and each looked up by its name.

use std::fmt;
use std::path::Path;

use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::Ptx;

use super::cubins::Cubins;
use super::failure::{failed, said};
use super::nvrtc::Compiler;
use super::source::{PTX, digest, fits};
use super::stream::Stream;
use crate::backend::DeviceError;
use crate::checkpoint::Digest;
use crate::cuda::driver::{ARGS_MAX, Launch};
use crate::cuda::kernel::Kernel;

/// What the GPU's code was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelSource {
    /// The sources, compiled for just this architecture.
    Nvrtc {
        /// The compiler's version, major and minor.
        version: (u32, u32),
        /// Such as `sm_90`.
        architecture: String,
        /// What the folder of compiled kernels was good for.
        disk: Disk,
    },
    /// The PTX that is part of this program, compiled by the driver.
    Ptx {
        /// Why not the sources.
        why: String,
    },
}

/// What the folder of compiled kernels was good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disk {
    Found,
    Kept,
    /// They could not be kept, for this reason.
    Refused(String),
}

impl fmt::Display for KernelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvrtc { version: (major, minor), architecture, disk } => {
                write!(f, "compiled for {architecture} by NVRTC {major}.{minor}")?;
                match disk {
                    Disk::Found => write!(f, ", kept from an earlier time"),
                    Disk::Kept => Ok(()),
                    Disk::Refused(why) => write!(f, ", not kept: {why}"),
                }
            }
            Self::Ptx { why } => write!(f, "PTX, compiled by the driver, because {why}"),
        }
    }
}

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
    /// Loads them: machine code made of the sources if it can be had, else the embedded PTX. `cache`
    /// is the folder in which machine code is kept.
    pub(super) fn load(
        stream: &Stream,
        capability: (u32, u32),
        cache: &Path,
    ) -> Result<(Self, KernelSource), DeviceError> {
        let load = |code: Ptx| stream.context().load_module(code);
        let made = machine_code(capability, &Cubins::new(cache)).and_then(|(code, source)| {
            let module = load(Ptx::from_binary(code));
            Ok((module.map_err(|error| format!("it is refused: {}", said(error)))?, source))
        });
        let (module, source) = match made {
            Ok(made) => made,
            Err(why) => {
                fits(PTX).map_err(DeviceError::Failed)?;
                let module = load(Ptx::from_src(PTX));
                let module = module.map_err(|error| failed("compiling the PTX", error))?;
                (module, KernelSource::Ptx { why })
            }
        };
        let shared = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared = stream.attribute(shared)?;
        let all = Kernel::ALL.into_iter().map(|kernel| Function::new(&module, kernel, shared));
        Ok((Self(all.collect::<Result<_, _>>()?), source))
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
        shared: i32,
    ) -> Result<Self, DeviceError> {
        let name = kernel.name();
        let function = module.load_function(name).map_err(|error| {
            let why = said(error);
            DeviceError::Failed(format!("the compiled kernels have no `{name}`: {why}"))
        })?;
        let limits = || -> Result<Limits, DriverError> {
            let free = shared - function.shared_size_bytes()?;
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
            let (asked, most) = (launch.threads, self.threads);
            return Err(format!(
                "`{name}` is asked for {asked} threads in a block of up to {most}"
            ));
        }
        if launch.shared > self.shared {
            let (asked, most) = (launch.shared, self.shared);
            return Err(format!(
                "`{name}` needs {asked} bytes of shared memory and this GPU gives it {most}"
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
        let asked = unsafe {
            sys::cuFuncGetParamInfo(function.cu_function(), index, &raw mut offset, &raw mut bytes)
        };
        match asked.result() {
            Ok(()) => {}
            Err(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE)) => return Ok(index),
            Err(error) => return Err(error),
        }
    }
    Ok(ARGS_MAX + 1)
}

/// Machine code of the sources, or why there is none.
fn machine_code(
    capability: (u32, u32),
    cubins: &Cubins<'_>,
) -> Result<(Vec<u8>, KernelSource), String> {
    let compiler = Compiler::open()?;
    let (version, (major, minor)) = (compiler.version(), capability);
    let architecture = format!("sm_{major}{minor}");
    let key = key(&architecture, version);
    let (code, disk) = match cubins.read(key) {
        Some(code) => (code, Disk::Found),
        None => {
            let code = compiler.cubin(&architecture)?;
            let kept = cubins.keep(key, &code);
            (code, kept.map_or_else(|error| Disk::Refused(error.to_string()), |()| Disk::Kept))
        }
    };
    Ok((code, KernelSource::Nvrtc { version, architecture, disk }))
}

/// Names the machine code of these sources, options, architecture and compiler.
fn key(architecture: &str, (major, minor): (u32, u32)) -> Digest {
    let sources = digest();
    Digest::of(format!("{sources}\n{architecture}\nNVRTC {major}.{minor}\n").as_bytes())
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

    #[test]
    fn machine_code_is_named_by_all_that_it_depends_on() {
        let keys =
            [("sm_80", (12, 4)), ("sm_90", (12, 4)), ("sm_90", (12, 40)), ("sm_90", (13, 0))];
        let all: std::collections::BTreeSet<String> = keys
            .iter()
            .map(|&(architecture, version)| key(architecture, version).to_string())
            .collect();
        assert_eq!(all.len(), keys.len());
    }

    #[test]
    fn it_is_said_what_runs() {
        let source = KernelSource::Nvrtc {
            version: (12, 4),
            architecture: "sm_90".to_owned(),
            disk: Disk::Found,
        };
        assert_eq!(
            source.to_string(),
            "compiled for sm_90 by NVRTC 12.4, kept from an earlier time"
        );
        let source = KernelSource::Ptx { why: "NVRTC is not installed".to_owned() };
        assert!(source.to_string().ends_with("because NVRTC is not installed"));
    }
}
