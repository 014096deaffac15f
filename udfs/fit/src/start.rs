//! Where a fit begins: from nothing, or from a checkpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proofmill_engine::checkpoint::{Codec, Digested, Family, Folder, Special};
use serde_json::{Map, Value, json};

use crate::batch::Pair;
use crate::error::FitError;
use crate::folder;
use crate::matching::match_heads;
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
    Checkpoint {
        folder: PathBuf,
        /// What its files must be, byte for byte, until all is read; whatever they are when absent.
        digested: Option<Digested>,
    },
}

/// Files of a checkpoint, beside its settings and weights, that the fitted model has too.
const KEPT: [&str; 4] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
];

impl Start {
    /// Fails if a model that begins so cannot be written to this folder, before anything is trained.
    pub fn check_target(&self, target: &Path) -> Result<(), FitError> {
        let of_scratch = |name: &&str| *name != "special_tokens_map.json";
        let kept: Vec<&str> = match self {
            Self::Scratch { .. } => KEPT.into_iter().filter(of_scratch).collect(),
            Self::Checkpoint { folder, .. } => {
                KEPT.into_iter().filter(|name| folder.join(name).is_file()).collect()
            }
        };
        folder::check(target, kept.into_iter().chain(["config.json"]))
    }
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
    pub start: u32,
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
            Start::Checkpoint { folder, digested } => checkpoint(folder, digested.as_ref()),
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

fn checkpoint(path: &Path, digested: Option<&Digested>) -> Result<Origin, FitError> {
    let folder = Folder::open(path)?;
    digested.map_or(Ok(()), |digested| folder.expect(digested))?;
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
    for name in KEPT {
        files.extend(folder.bytes(name)?.map(|bytes| (name.to_owned(), bytes)));
    }
    let config = folder.bytes("config.json")?.unwrap_or_default();
    let config = serde_json::from_slice(&config)
        .map_err(|error| refuse(&format!("config.json: {error}")))?;
    let origin = Origin {
        weights: plan.read(&folder)?,
        reader: Reader::Checkpoint(Box::new(Codec::read(&folder)?)),
        plan,
        start,
        end,
        config,
        files,
    };
    // All is read: what becomes of the files from now on does not matter.
    folder.watch().examine()?;
    Ok(origin)
}

/// A small file of settings as people read it.
pub fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
