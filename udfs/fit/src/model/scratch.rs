//! A fit that begins from nothing: a T5 or an OPT, which write, or a BERT, whose vectors are trained, with a tokenizer of
//! its own.

use std::collections::BTreeMap;

use serde_json::json;

use crate::data::batch::{Begin, Pair};
use crate::data::tokens::{Around, BEGIN, END, PAD, Reader, UNKNOWN, id, read, words};
use crate::error::FitError;
use crate::graph::ops::Pool;
use crate::model::bert::BertShape;
use crate::model::matching::match_heads;
use crate::model::opt::OptShape;
use crate::model::origin::{Ends, Origin, Tokens, pretty};
use crate::model::sentence;
use crate::model::t5::T5Shape;
use crate::settings::Checked;
use proofmill_settings::fit::Objective;
use proofmill_settings::fit::{Activation, Architecture, Sizes};

/// Most tokens of a text that a new BERT reads.
const POSITIONS: usize = 512;

/// Most tokens of a text that a new decoder reads with what it writes.
const DECODER_POSITIONS: usize = 1024;

/// What is made of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    T5,
    Bert,
    Opt,
}

impl Made {
    fn of(sizes: &Sizes, objective: Objective) -> Self {
        match (objective.writes(), sizes.architecture()) {
            (false, _) => Self::Bert,
            (true, Architecture::T5) => Self::T5,
            (true, Architecture::Opt) => Self::Opt,
        }
    }

    fn around(self) -> Around {
        match self {
            Self::T5 => Around::End,
            Self::Bert => Around::Both,
            Self::Opt => Around::Begin,
        }
    }
}

/// Fails if no model of these sizes can be trained so from nothing.
pub fn check(sizes: &Sizes, objective: Objective) -> Result<(), FitError> {
    sizes.check()?;
    let refused = |expected: &str| {
        let (name, found) = ("objective", objective.name().to_owned());
        Err(FitError::Setting { name, found, expected: expected.to_owned() })
    };
    match (Made::of(sizes, objective), objective) {
        (_, Objective::Similarity) => {
            refused("generation or contrastive: vectors of outputs need a `checkpoint`")
        }
        (Made::T5, _) => Ok(()),
        (Made::Opt, Objective::Policy) => {
            refused("generation: rewards are learnt behind an encoder")
        }
        (Made::Opt, _) => one_stack(sizes, "an OPT"),
        (Made::Bert, _) if sizes.architecture() == Architecture::Opt => {
            refused("generation: a decoder-only model, `opt`, has no vectors to train")
        }
        (Made::Bert, _) => one_stack(sizes, "a BERT"),
    }
}

/// Refuses sizes that a model of one stack, whose positions are learnt, has not.
fn one_stack(sizes: &Sizes, model: &str) -> Result<(), FitError> {
    let refuse =
        |name, found: String, expected: String| Err(FitError::Setting { name, found, expected });
    if sizes.heads * sizes.d_kv != sizes.d_model {
        let expected = format!("`d_model` over `heads`, as the heads of {model} share its width");
        return refuse("d_kv", sizes.d_kv.to_string(), expected);
    }
    if let Some(layers) = sizes.decoder_layers {
        let expected = format!("none: {model} has one stack of `layers`");
        return refuse("decoder_layers", layers.to_string(), expected);
    }
    if sizes.matching_heads() > 0 {
        let expected = format!("0: heads of {model} begin by chance");
        return refuse("matching_heads", sizes.matching_heads().to_string(), expected);
    }
    match sizes.activation() {
        Activation::Relu => Ok(()),
        Activation::GatedGelu => {
            refuse("activation", "gated_gelu".to_owned(), format!("relu, of {model} from nothing"))
        }
    }
}

/// Everything that such a fit begins with; `sizes` fit the objective.
pub fn scratch<'a>(
    sizes: &Sizes,
    tokens: &'a Tokens,
    objective: Objective,
    train: &'a [Pair],
    seed: u64,
) -> Result<Origin, FitError> {
    let made = Made::of(sizes, objective);
    let json = match tokens {
        Tokens::Json(json) => json.clone(),
        Tokens::Words { also } => {
            let texts = |pair: &'a Pair| pair.input.texts().iter().chain([&pair.output]);
            let texts = train.iter().flat_map(texts).chain(also).map(String::as_str);
            words(texts, sizes.min_count(), made.around())?
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
    if tokenizer.token_to_id(BEGIN).is_some() {
        settings["bos_token"] = json!(BEGIN);
    }
    let (plan, config, positions, begin) = match made {
        Made::T5 => {
            let shape = T5Shape::new(sizes, vocabulary);
            let generation = json!({
                "decoder_start_token_id": pad,
                "eos_token_id": end,
                "pad_token_id": pad,
            });
            files.insert("generation_config.json".to_owned(), pretty(&generation));
            (shape.plan(), shape.config(pad, end), None, Some(Begin::Token(pad)))
        }
        Made::Bert => {
            settings["model_max_length"] = json!(POSITIONS);
            let shape = BertShape::new(sizes, vocabulary, POSITIONS);
            files.extend(sentence::files(Pool::Mean, true, sizes.d_model, POSITIONS));
            (shape.encoder_plan(), shape.config(pad), Some(POSITIONS), None)
        }
        Made::Opt => {
            settings["model_max_length"] = json!(DECODER_POSITIONS);
            let shape = OptShape::new(sizes, vocabulary, DECODER_POSITIONS);
            let begin = id(&tokenizer, BEGIN)?;
            let generation = json!({
                "bos_token_id": begin,
                "eos_token_id": end,
                "pad_token_id": pad,
            });
            files.insert("generation_config.json".to_owned(), pretty(&generation));
            let config = shape.config((pad, begin, end));
            (shape.plan(), config, Some(DECODER_POSITIONS), Some(Begin::Input))
        }
    };
    let writes = begin.map(|begin| Ends { begin, end });
    files.insert("tokenizer_config.json".to_owned(), pretty(&settings));
    let mut weights = plan.first(seed);
    if made == Made::T5 {
        match_heads(&plan, sizes.matching_heads(), &mut weights);
    }
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
