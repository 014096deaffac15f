//! What can go wrong on a device; loading and computing both name it.

/// A device gave up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is not enough memory.
    #[error("the device has no room for {bytes} more bytes")]
    OutOfMemory { bytes: usize },
    #[error("the device failed: {0}")]
    Failed(String),
}
