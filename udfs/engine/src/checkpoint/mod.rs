//! Reads a model's folder: configuration, tensors, tokenizer, and the digest of them.

mod architecture;
mod chat;
mod config;
mod digest;
mod error;
mod folder;
mod identity;
mod labels;
mod near;
mod open_file;
mod sentence;
mod special;
mod stored_tensor;
mod stream;
mod tensors;
mod text;
mod token_bytes;

pub use architecture::Family;
pub use chat::ChatTemplate;
pub use config::Config;
pub use digest::{DigestCache, Trust, digest_of_parts, seal, unseal};
pub use error::LoadError;
pub use folder::Folder;
pub use identity::Identity;
pub use labels::{Labels, Meaning};
pub use open_file::{Digested, OpenFile, Watch};
pub use proofmill_base::digest::Digest;
pub use sentence::{VectorMode, VectorSettings};
pub use special::Special;
pub use stored_tensor::{Dtype, StoredTensor};
pub use stream::TextStream;
pub use text::{Codec, Encoded, EncodedPair, TextError, TokenizedContinuation};

#[cfg(test)]
pub(crate) mod tests;
