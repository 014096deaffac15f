//! Whole fits of tiny models, and what the engine makes of them.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod answers;
mod bytes;
mod decoders;
mod dev;
mod encoders;
mod made;
mod policy;
mod refused;
mod transformers;
