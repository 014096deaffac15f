//! What a process needs to start runs, put together once and without a terminal: commands start them through it, and so does
//! whatever else does. Runs of one process share its permits, its memory and its disk for spilling.

pub mod alerts;
pub mod budget;
pub mod counterfactual;
pub mod judging;
pub mod kept;
mod mail;
mod onlooker;
pub mod post;
mod process;
mod sample;
mod start;
pub mod worker;

pub use process::{Host, HostParts};
pub use start::{EndedRun, RunStart};
