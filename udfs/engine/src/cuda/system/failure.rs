//! What the driver says when it fails, in words.

use std::any::Any;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

use crate::backend::DeviceError;

/// The driver failed while `doing` something.
pub(super) fn failed(doing: &str, error: DriverError) -> DeviceError {
    DeviceError::Failed(format!("while {doing}, {}", said(error)))
}

/// The same, where it may have run out of memory for `bytes` more.
pub(super) fn no_room(bytes: usize, doing: &str, error: DriverError) -> DeviceError {
    match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => DeviceError::OutOfMemory { bytes },
        _ => failed(doing, error),
    }
}

/// The name of an error, and what it means.
pub(super) fn said(error: DriverError) -> String {
    match error.error_string() {
        Ok(meaning) => format!("CUDA returned {:?}: {}", error.0, meaning.to_string_lossy()),
        Err(_) => format!("CUDA returned {:?}", error.0),
    }
}

/// What a panic of the bindings said: they panic where a library lacks a function.
pub(super) fn panicked(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}
