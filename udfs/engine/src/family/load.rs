//! The one entrance: a folder becomes a network.

use super::source::Source;
use super::{bart, bert, gpt2, llama, opt, t5};
use crate::backend::{Backend, Precision};
use crate::checkpoint::{Family, Folder, LoadError};
use crate::network::Network;

/// Reads a folder's weights into a backend.
///
/// `context_limit` is the most tokens that any text will have, special ones included; a model that
/// has fewer positions keeps its own limit, and tables are made no longer than needed.
pub fn load<B: Backend>(
    folder: &Folder,
    backend: &B,
    precision: Precision,
    context_limit: usize,
) -> Result<Network<B>, LoadError> {
    let source = Source::new(folder, backend, precision, context_limit);
    match folder.family() {
        Family::T5 => t5::load(source),
        Family::Bart => bart::load(source),
        Family::Bert => bert::load(source),
        Family::Opt => opt::load(source),
        Family::Gpt2 => gpt2::load(source),
        Family::Llama => llama::load(source, llama::Kind::Llama),
        Family::Qwen2 => llama::load(source, llama::Kind::Qwen2),
        Family::Qwen3 => llama::load(source, llama::Kind::Qwen3),
    }
}
