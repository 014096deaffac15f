//! A fit that begins from nothing: a T5, which writes, or a BERT, whose vectors are trained, with a tokenizer of its own.

use std::collections::BTreeMap;

use serde_json::json;

use crate::batch::Pair;
use crate::bert::BertShape;
use crate::error::FitError;
use crate::matching::match_heads;
use crate::ops::Pool;
use crate::origin::{Ends, Origin, Tokens, pretty};
use crate::sentence;
use crate::settings::Objective;
use crate::sizes::{Activation, Sizes};
use crate::t5::T5Shape;
use crate::tokens::{BEGIN, END, PAD, Reader, UNKNOWN, id, read, words};

/// Most tokens of a text that a new BERT reads.
const POSITIONS: usize = 512;

/// Fails if no model of these sizes can be trained so from nothing.
pub fn check(sizes: &Sizes, objective: Objective) -> Result<(), FitError> {
    sizes.check()?;
    let refuse = |name, found: String, expected: &str| {
        Err(FitError::Setting { name, found, expected: expected.to_owned() })
    };
    match objective {
        Objective::Generation | Objective::Policy => Ok(()),
        Objective::Similarity => refuse(
            "objective",
            objective.name().to_owned(),
            "generation or contrastive: vectors of outputs need a `checkpoint`",
        ),
        Objective::Contrastive => {
            if sizes.heads * sizes.d_kv != sizes.d_model {
                let expected = "`d_model` over `heads`, as the heads of a BERT share its width";
                return refuse("d_kv", sizes.d_kv.to_string(), expected);
            }
            if let Some(layers) = sizes.decoder_layers {
                return refuse("decoder_layers", layers.to_string(), "none: a BERT has no decoder");
            }
            if sizes.matching_heads > 0 {
                let expected = "0: heads of a BERT begin by chance";
                return refuse("matching_heads", sizes.matching_heads.to_string(), expected);
            }
            match sizes.activation {
                Activation::Relu => Ok(()),
                Activation::GatedGelu => {
                    refuse("activation", "gated_gelu".to_owned(), "relu, of a BERT from nothing")
                }
            }
        }
    }
}

/// Everything that such a fit begins with; `sizes` fit the objective.
pub fn scratch(
    sizes: &Sizes,
    tokens: &Tokens,
    objective: Objective,
    train: &[Pair],
    seed: u64,
) -> Result<Origin, FitError> {
    let writes = objective.writes();
    let json = match tokens {
        Tokens::Json(json) => json.clone(),
        Tokens::Words { also } => {
            let pairs = train.iter().flat_map(|pair| [pair.input.as_str(), pair.output.as_str()]);
            words(pairs.chain(also.iter().map(String::as_str)), sizes.min_count, !writes)?
        }
    };
    let tokenizer = read(&json)?;
    let (pad, end) = (id(&tokenizer, PAD)?, id(&tokenizer, END)?);
    let vocabulary = tokenizer.get_vocab_size(true);
    let mut settings = json!({
        "clean_up_tokenization_spaces": false,
        "eos_token": END,
        "pad_token": PAD,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": UNKNOWN,
    });
    let mut files = BTreeMap::from([("tokenizer.json".to_owned(), json)]);
    let (plan, config, positions, writes) = if writes {
        let shape = T5Shape::new(sizes, vocabulary);
        let generation = json!({
            "decoder_start_token_id": pad,
            "eos_token_id": end,
            "pad_token_id": pad,
        });
        files.insert("generation_config.json".to_owned(), pretty(&generation));
        let ends = Ends { start: pad, end };
        (shape.plan(), shape.config(pad, end), None, Some(ends))
    } else {
        if tokenizer.token_to_id(BEGIN).is_some() {
            settings["bos_token"] = json!(BEGIN);
        }
        settings["model_max_length"] = json!(POSITIONS);
        let shape = BertShape::new(sizes, vocabulary, POSITIONS);
        files.extend(sentence::files(Pool::Mean, true, sizes.d_model, POSITIONS));
        (shape.encoder_plan(), shape.config(pad), Some(POSITIONS), None)
    };
    files.insert("tokenizer_config.json".to_owned(), pretty(&settings));
    let mut weights = plan.first(seed);
    match_heads(&plan, sizes.matching_heads, &mut weights);
    Ok(Origin {
        weights,
        config,
        reader: Reader::New(Box::new(tokenizer)),
        plan,
        writes,
        pool: Pool::Mean,
        positions,
        files,
        untrained: Vec::new(),
    })
}
