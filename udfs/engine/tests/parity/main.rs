//! The engine against transformers: tiny checkpoints of every family, with what transformers makes
//! of them. `compare.md` says how they are made and how near is near enough.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod answers;
mod classes;
mod forward;
mod golden;
mod logprobs;
mod model;
mod near;
mod pass;
mod sound;
mod tensors;
mod vectors;
