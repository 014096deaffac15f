//! A small change to a kernel, and the check that must notice it.

use crate::emulator::Emulator;

/// Compares kernels with what they must give; says what differs.
pub type Check = fn(&Emulator) -> Result<(), String>;

/// A change that makes a kernel wrong.
pub struct Mutation {
    /// The kernel, as [`proofmill_engine::cuda::Kernel::name`] has it.
    pub kernel: &'static str,
    /// The file it is made in, as [`proofmill_engine::cuda::SOURCES`] names it, or `common.cu`.
    pub source: &'static str,
    /// Text that occurs once in the file.
    pub from: &'static str,
    pub to: &'static str,
    /// What must fail then: with an error, or because the emulator ends with a report.
    pub check: Check,
}
