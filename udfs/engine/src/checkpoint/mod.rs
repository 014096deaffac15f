//! What lies in a model's folder: configuration, tensors, tokenizer.

mod architecture;
mod config;
mod digest;
mod error;
mod folder;
mod held;
mod identity;
mod near;
mod sentence;
mod special;
mod stored;
mod tensors;
mod text;

pub use architecture::Family;
pub use config::Config;
pub use digest::{Digest, DigestCache, NotADigest, Trust, seal, unseal};
pub use error::LoadError;
pub use folder::Folder;
pub use held::{Digested, Held, Watch};
pub use identity::Identity;
pub use sentence::{VectorMode, VectorSettings};
pub use special::Special;
pub use stored::{Dtype, Stored};
pub use text::{Codec, Continuation, Encoded, TextError};

#[cfg(test)]
pub(crate) mod tests;
