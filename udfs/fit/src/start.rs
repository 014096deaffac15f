//! Where a fit begins: from nothing, or from a checkpoint.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proofmill_engine::checkpoint::{Codec, Family, Folder, Special};
use serde_json::{Map, Value, json};

use crate::error::FitError;
use crate::matching::match_heads;
use crate::pair::Pair;
use crate::shape::Shape;
use crate::sizes::Sizes;
use crate::tokens::{END, PAD, Reader, UNKNOWN, id, read, words};
use crate::weights::{Plan, Weights};

/// Where a fit begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// With weights by chance.
    Scratch {
        /// The sizes of the model.
        sizes: Sizes,
        /// How texts become tokens.
        tokens: Tokens,
    },
    /// With those of a T5 checkpoint in the layout of Hugging Face, whose tokenizer stays.
    Checkpoint(PathBuf),
}

/// How texts become tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// One token for each word, name in dollars or brackets, and mark, with the space before it, from
    /// the training texts.
    Words {
        /// How often a word must come at least; rarer ones become `<unk>`. At 1 every text comes
        /// back as it was, with single spaces.
        min_count: u32,
        /// Texts whose words are known too, though nothing is learnt from them; they count like
        /// those of training.
        also: Vec<String>,
    },
    /// The content of a `tokenizer.json`, which must have the tokens `<pad>` and `</s>`.
    Json(Vec<u8>),
}

/// Everything that a fit begins with.
pub struct Origin {
    pub plan: Plan,
    pub weights: Weights,
    pub reader: Reader,
    /// Begins every output.
    pub start: u32,
    /// Ends every output.
    pub end: u32,
    /// `config.json`.
    pub config: Map<String, Value>,
    /// The other files of the checkpoint but the weights.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Origin {
    /// Makes or reads it.
    pub fn new(start: &Start, train: &[Pair], seed: u64) -> Result<Self, FitError> {
        match start {
            Start::Scratch { sizes, tokens } => scratch(sizes, tokens, train, seed),
            Start::Checkpoint(folder) => checkpoint(folder),
        }
    }
}

fn scratch(sizes: &Sizes, tokens: &Tokens, train: &[Pair], seed: u64) -> Result<Origin, FitError> {
    sizes.check()?;
    let json = match tokens {
        Tokens::Json(json) => json.clone(),
        Tokens::Words { min_count, also } => {
            let pairs = train.iter().flat_map(|pair| [pair.input.as_str(), pair.output.as_str()]);
            words(pairs.chain(also.iter().map(String::as_str)), *min_count)?
        }
    };
    let tokenizer = read(&json)?;
    let (start, end) = (id(&tokenizer, PAD)?, id(&tokenizer, END)?);
    let shape = Shape::new(sizes, tokenizer.get_vocab_size(true));
    let plan = Plan::new(shape);
    let settings = json!({
        "clean_up_tokenization_spaces": false,
        "eos_token": END,
        "pad_token": PAD,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": UNKNOWN,
    });
    let generation = json!({
        "decoder_start_token_id": start,
        "eos_token_id": end,
        "pad_token_id": start,
    });
    let files = BTreeMap::from([
        ("tokenizer.json".to_owned(), json),
        ("tokenizer_config.json".to_owned(), pretty(&settings)),
        ("generation_config.json".to_owned(), pretty(&generation)),
    ]);
    let mut weights = plan.first(seed);
    match_heads(&plan, sizes.matching_heads, &mut weights);
    Ok(Origin {
        weights,
        config: shape.config(start, end),
        reader: Reader::New(Box::new(tokenizer)),
        plan,
        start,
        end,
        files,
    })
}

fn checkpoint(path: &Path) -> Result<Origin, FitError> {
    let folder = Folder::open(path)?;
    let refuse = |why: &str| FitError::Checkpoint { folder: path.to_owned(), why: why.to_owned() };
    if folder.family() != Family::T5 {
        let found = format!("{} cannot be trained; give a T5", folder.architecture());
        return Err(refuse(&found));
    }
    let special = Special::read(&folder)?;
    let start =
        special.start.ok_or_else(|| refuse("config.json has no `decoder_start_token_id`"))?;
    let end = *special.ends.first().ok_or_else(|| refuse("config.json has no `eos_token_id`"))?;
    let plan = Plan::new(Shape::read(&folder)?);
    let mut files = BTreeMap::new();
    let kept = [
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "generation_config.json",
    ];
    for name in kept {
        let file = folder.file(name);
        if file.is_file() {
            files.insert(name.to_owned(), read_file(&file)?);
        }
    }
    let config = folder.config().file();
    let config = serde_json::from_slice(&read_file(config)?)
        .map_err(|error| refuse(&format!("config.json: {error}")))?;
    Ok(Origin {
        weights: plan.read(&folder)?,
        reader: Reader::Checkpoint(Box::new(Codec::read(&folder)?)),
        plan,
        start,
        end,
        config,
        files,
    })
}

fn read_file(file: &Path) -> Result<Vec<u8>, FitError> {
    fs::read(file).map_err(|source| FitError::File { file: file.to_owned(), source })
}

/// A small file of settings as people read it.
pub fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
