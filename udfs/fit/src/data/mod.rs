//! From pairs of texts to steps: tokens, examples, batches.

pub mod batch;
pub mod input;
pub mod tokens;
