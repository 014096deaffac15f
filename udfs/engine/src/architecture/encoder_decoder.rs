//! `EncoderDecoderModel` of transformers with BERT on both sides: settings of each in a section of its own, a
//! head that transforms rows before the matrix of tokens.

use super::bert;
use super::loader::{WeightLoader, activation};
use crate::backend::LoadWeights;
use crate::checkpoint::{Config, LoadError};
use crate::network::{Network, Projection, Transformer};

/// Before the names of the encoder's tensors, and of the decoder's.
const ENCODER: &str = "encoder.";
const DECODER: &str = "decoder.bert.";

/// Both stacks.
pub(super) fn load<B: LoadWeights>(loader: WeightLoader<'_, B>) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    // Versions of transformers before 5 can share the stacks, and then store each tensor once.
    let shared = config.flag_or("tie_encoder_decoder", false)?;
    let (encoder, decoder) = (side(config, "encoder", false)?, side(config, "decoder", true)?);
    same(&encoder, &decoder, "hidden_size", "a projection between them is not supported")?;
    same(&encoder, &decoder, "vocab_size", "one tokenizer serves both")?;
    let across = decoder.size_if_there("cross_attention_hidden_size")?;
    if across.is_some() && across != encoder.size_if_there("hidden_size")? {
        let expected = "absent, or the `hidden_size` of both sides";
        return Err(decoder.refuse("cross_attention_hidden_size", expected));
    }
    let reads = loader.under(ENCODER, shared.then_some(DECODER));
    let writes = loader.under(DECODER, shared.then_some(ENCODER));
    let read = bert::stack(&reads, &encoder, false)?;
    let mut written = bert::stack(&writes, &decoder, true)?;
    let (width, vocabulary) = (written.width, decoder.size("vocab_size")?);
    let head = loader.under("decoder.cls.predictions.", None);
    written.project_out = Some(Projection {
        linear: head.linear(&[("transform.dense", width)], width, true)?,
        activation: activation(&decoder, "hidden_act", "gelu")?,
        norm: Some(bert::norm(&head, "transform.LayerNorm", bert::norms(&decoder)?)?),
    });
    let tied = decoder.flag_or("tie_word_embeddings", true)?;
    let matrix = if head.has("decoder.weight") || !tied {
        head.tensor("decoder.weight", &[vocabulary, width])?
    } else {
        writes.tensor("embeddings.word_embeddings.weight", &[vocabulary, width])?
    };
    let bias = if head.has("decoder.bias") || !tied { "decoder.bias" } else { "bias" };
    let bias = head.tensor(bias, &[vocabulary])?.values();
    let head = loader.lm_head(matrix, 1.0, Some(&bias))?;
    let positions = |config: &Config| config.size("max_position_embeddings");
    let positions = loader.positions(positions(&encoder)?.min(positions(&decoder)?));
    let transformer = Transformer::EncoderDecoder { encoder: read, decoder: written };
    Ok(loader.network(transformer, Some(head), loader.plain_pooling()?, Some(positions)))
}

/// The settings of one side.
fn side(config: &Config, key: &str, decoder: bool) -> Result<Config, LoadError> {
    let side = config
        .section(key)?
        .ok_or_else(|| config.refuse(key, "the settings of this side of the model"))?;
    if side.text("model_type")? != Some("bert") {
        return Err(side.refuse("model_type", "\"bert\": other sides are not supported"));
    }
    for key in ["is_decoder", "add_cross_attention"] {
        if side.flag_or(key, false)? != decoder {
            return Err(side.refuse(key, decoder.to_string()));
        }
    }
    Ok(side)
}

/// Refuses a size of the decoder that is not the encoder's.
fn same(encoder: &Config, decoder: &Config, key: &str, why: &str) -> Result<(), LoadError> {
    let size = encoder.size(key)?;
    if decoder.size(key)? == size {
        return Ok(());
    }
    Err(decoder.refuse(key, format!("{size}, as the encoder has: {why}")))
}
