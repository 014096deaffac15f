//! Many requests at once: no answer depends on the other requests, each gets one, and what is
//! shared is computed once. The models are the tiny checkpoints of the parity tests.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod ahead;
mod ask;
mod cancelled;
mod choices;
mod crowded;
mod forms;
mod invariance;
mod limits;
mod memory;
mod mixes;
mod refusals;
mod samples;
mod sharing;
mod stops;
mod tight;
