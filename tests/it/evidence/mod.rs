//! Evidence for strangers: the audit log, the texts that runs keep, keys, anchors, and verification.

mod attacks;
mod exports;
pub mod forgeries;
mod log;
mod prove;
mod replay;
mod second;
mod sources;
