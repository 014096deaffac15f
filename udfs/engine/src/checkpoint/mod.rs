//! What lies in a model's folder: configuration, tensors, tokenizer.

mod stored;

pub use stored::{Dtype, Stored};
