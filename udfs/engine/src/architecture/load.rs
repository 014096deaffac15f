//! Loads a folder as the architecture that its `config.json` names.

use super::loader::WeightLoader;
use super::{bart, bert, encoder_decoder, gpt2, llama, opt, t5};
use crate::backend::{LoadWeights, Precision};
use crate::checkpoint::{Family, Folder, LoadError};
use crate::network::Network;

/// Reads a folder's weights into a backend.
///
/// `context_limit` is the most tokens that any text will have, special ones included; a model that
/// has fewer positions keeps its own limit, and tables are made no longer than needed.
pub fn load<B: LoadWeights>(
    folder: &Folder,
    backend: &B,
    precision: Precision,
    context_limit: usize,
) -> Result<Network<B>, LoadError> {
    let loader = WeightLoader::new(folder, backend, precision, context_limit);
    match folder.family() {
        Family::T5 => t5::load(loader),
        Family::Bart => bart::load(loader),
        Family::Bert => bert::load(loader, bert::Variant::Bert),
        Family::Dpr => bert::load(loader, bert::Variant::Dpr),
        Family::Roberta | Family::XlmRoberta => bert::load(loader, bert::Variant::Roberta),
        Family::EncoderDecoder => encoder_decoder::load(loader),
        Family::Opt => opt::load(loader),
        Family::Gpt2 => gpt2::load(loader),
        Family::Llama => llama::load(loader, llama::Variant::Llama),
        Family::Mistral => llama::load(loader, llama::Variant::Mistral),
        Family::Qwen2 => llama::load(loader, llama::Variant::Qwen2),
        Family::Qwen3 => llama::load(loader, llama::Variant::Qwen3),
    }
}
