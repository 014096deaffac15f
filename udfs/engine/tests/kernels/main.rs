//! The CUDA backend on an emulator, against the processor's backend.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod ahead;
#[path = "../schedule/ask.rs"]
#[expect(dead_code, reason = "the tests of the schedule ask more")]
mod ask;
mod attend;
mod compile;
mod emulator;
mod gemm;
mod invariance;
mod kv_write;
mod models;
mod mutation;
mod mutations;
mod nearest;
#[path = "../parity/pass.rs"]
mod pass;
mod process;
mod rows;
mod sampler;
mod texts;
mod trials;
