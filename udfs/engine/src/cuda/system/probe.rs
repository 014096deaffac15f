//! Which GPUs there are, found out without a panic where there is no driver.

use std::panic;

use cudarc::driver::result::{self, device};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use cudarc::driver::{CudaContext, DriverError};

use super::failure::{panicked, said};

/// Tensor cores for bfloat16 and copies past the registers came with it.
const CAPABILITY_MIN: (u32, u32) = (8, 0);
/// The embedded PTX is of the version that this CUDA brought.
const CUDA_MIN: (u32, u32) = (12, 4);

/// A GPU that can run the kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedGpu {
    /// Its number among all GPUs of the machine.
    pub index: usize,
    pub name: String,
    /// Its compute capability, major and minor.
    pub capability: (u32, u32),
    pub bytes: usize,
    /// The version of CUDA that its driver knows, major and minor.
    pub cuda: (u32, u32),
}

/// Why there is no GPU to compute on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error("there is no GPU driver: the library libcuda.so.1 is not found")]
    NoDriver,
    /// A driver, but nothing for it.
    #[error("the GPU driver finds no GPU; is CUDA_VISIBLE_DEVICES set to hide it?")]
    NoDevice,
    #[error("the GPU driver does not work: {0}")]
    Failed(String),
    /// The driver is older than the kernels.
    #[error(
        "the GPU driver knows CUDA {major}.{minor} and {}.{} is needed: install NVIDIA's driver 550 or \
         later",
        CUDA_MIN.0,
        CUDA_MIN.1
    )]
    OldDriver {
        major: u32,
        /// The same, after the point.
        minor: u32,
    },
    /// No GPU is new enough.
    #[error(
        "a GPU needs compute capability {}.{} or higher; found {found}",
        CAPABILITY_MIN.0,
        CAPABILITY_MIN.1
    )]
    OldGpus {
        /// Names, each with its capability.
        found: String,
    },
}

impl ProbeError {
    /// What to do about it, where the message does not say it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::NoDriver => {
                Some("install NVIDIA's driver, or start the container with access to the GPUs")
            }
            Self::NoDevice | Self::Failed(_) | Self::OldDriver { .. } | Self::OldGpus { .. } => {
                None
            }
        }
    }
}

/// The GPUs that can run the kernels; never none.
pub fn gpus() -> Result<Vec<ProbedGpu>, ProbeError> {
    #[expect(unsafe_code, reason = "opens a library, which runs its initialisers")]
    // SAFETY: NVIDIA's driver is made to be opened by any program.
    let present = unsafe { sys::is_culib_present() };
    if !present {
        return Err(ProbeError::NoDriver);
    }
    let found = panic::catch_unwind(ask).map_err(|panic| ProbeError::Failed(panicked(&*panic)))?;
    suited(found.map_err(|error| match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => ProbeError::NoDevice,
        _ => ProbeError::Failed(said(error)),
    })?)
}

/// Those of `all` that can run the kernels.
fn suited(all: Vec<ProbedGpu>) -> Result<Vec<ProbedGpu>, ProbeError> {
    let Some(first) = all.first() else { return Err(ProbeError::NoDevice) };
    let (major, minor) = first.cuda;
    if first.cuda < CUDA_MIN {
        return Err(ProbeError::OldDriver { major, minor });
    }
    let (good, old): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|gpu| gpu.capability >= CAPABILITY_MIN);
    if good.is_empty() {
        let name =
            |gpu: &ProbedGpu| format!("{} ({}.{})", gpu.name, gpu.capability.0, gpu.capability.1);
        let found = old.iter().map(name).collect::<Vec<_>>().join(", ");
        return Err(ProbeError::OldGpus { found });
    }
    Ok(good)
}

/// Asks the driver for all GPUs. Nothing is made on them.
fn ask() -> Result<Vec<ProbedGpu>, DriverError> {
    let count = CudaContext::device_count()?;
    let cuda = cuda_version()?;
    (0..count).map(|ordinal| describe(ordinal, cuda)).collect()
}

fn describe(ordinal: i32, cuda: (u32, u32)) -> Result<ProbedGpu, DriverError> {
    let gpu = device::get(ordinal)?;
    let name = device::get_name(gpu)?;
    #[expect(unsafe_code, reason = "questions to the driver by the number of a device")]
    // SAFETY: `gpu` was given by `device::get`.
    let (major, minor, bytes) = unsafe {
        use CUdevice_attribute as Attribute;
        let major = Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        let minor = Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        (
            device::get_attribute(gpu, major)?,
            device::get_attribute(gpu, minor)?,
            device::total_mem(gpu)?,
        )
    };
    let capability = (major.unsigned_abs(), minor.unsigned_abs());
    let index = ordinal.unsigned_abs() as usize;
    Ok(ProbedGpu { index, name, capability, bytes, cuda })
}

fn cuda_version() -> Result<(u32, u32), DriverError> {
    result::init()?;
    let mut version = 0;
    #[expect(unsafe_code, reason = "the bindings wrap this function nowhere else")]
    // SAFETY: the pointer is to an integer of the type that the function writes.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
    let version = version.unsigned_abs();
    Ok((version / 1000, version % 1000 / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: usize, capability: (u32, u32), cuda: (u32, u32)) -> ProbedGpu {
        ProbedGpu { index, name: format!("GPU{index}"), capability, bytes: 1 << 34, cuda }
    }

    #[test]
    fn only_gpus_that_can_run_the_kernels_are_given() {
        let all = vec![gpu(0, (7, 5), (13, 0)), gpu(1, (8, 0), (13, 0)), gpu(2, (9, 0), (13, 0))];
        let good: Vec<usize> = suited(all).unwrap().iter().map(|gpu| gpu.index).collect();
        assert_eq!(good, [1, 2]);
    }

    #[test]
    fn it_is_said_why_there_is_none() {
        assert_eq!(suited(vec![]), Err(ProbeError::NoDevice));
        let old = suited(vec![gpu(0, (9, 0), (12, 3))]).unwrap_err();
        assert_eq!(old, ProbeError::OldDriver { major: 12, minor: 3 });
        assert!(old.to_string().contains("CUDA 12.3 and 12.4 is needed"), "{old}");
        let old = suited(vec![gpu(0, (7, 5), (12, 4)), gpu(1, (6, 1), (12, 4))]).unwrap_err();
        assert_eq!(old, ProbeError::OldGpus { found: "GPU0 (7.5), GPU1 (6.1)".to_owned() });
    }

    #[test]
    fn asking_never_panics() {
        match gpus() {
            Ok(gpus) => assert!(!gpus.is_empty()),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
}
