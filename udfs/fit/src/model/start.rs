//! Where a fit begins: from nothing, from a checkpoint, or behind the encoder of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proofmill_engine::checkpoint::{
    Codec, Config, Digested, Family, Folder, LoadError, Special, VectorMode,
};
use serde_json::{Map, Value, json};

use crate::data::batch::{Begin, Pair};
use crate::data::tokens::Reader;
use crate::error::FitError;
use crate::graph::ops::Pool;
use crate::model::bert::BertShape;
use crate::model::folder;
use crate::model::opt::OptShape;
use crate::model::origin::{Ends, Origin, Tokens, object, pretty};
use crate::model::scratch::{self, scratch};
use crate::model::sentence;
use crate::model::t5::T5Shape;
use crate::model::weights::{Plan, Stored};
use crate::settings::Checked;
use proofmill_settings::fit::Objective;
use proofmill_settings::fit::{Architecture, DecoderSizes, Sizes};

/// Where a fit begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// With weights by chance: of a T5 or an OPT, or, where vectors are trained, of a BERT.
    Scratch {
        /// The sizes of the model.
        sizes: Sizes,
        /// How texts become tokens.
        tokens: Tokens,
    },
    /// With those of a checkpoint in the layout of Hugging Face, whose tokenizer stays: a T5, two BERTs or an OPT, which
    /// learn to write, or a BERT, whose vectors are trained.
    Checkpoint {
        folder: PathBuf,
        /// What its files must be, byte for byte, until all is read; whatever they are when absent.
        digested: Option<Digested>,
    },
    /// With a BERT as the encoder, and a decoder behind it that has its embeddings and is new otherwise.
    WithDecoder {
        /// The folder of the BERT.
        folder: PathBuf,
        /// As that of [`Start::Checkpoint`].
        digested: Option<Digested>,
        /// The sizes of the decoder.
        decoder: DecoderSizes,
    },
}

/// Files of a checkpoint, beside its settings and weights, that the fitted model has too.
const KEPT: [&str; 4] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
];

/// Classes of which nothing that counts is lost without their heads.
const BERTS: [&str; 3] = ["BertModel", "BertForMaskedLM", "BertForPreTraining"];

/// What can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trained {
    T5,
    TwoBerts,
    Opt,
    Encoder,
    /// Two BERTs, of which there is the first.
    NewDecoder,
}

impl Trained {
    /// What becomes of a checkpoint, or why nothing does.
    fn of(
        folder: &Folder,
        objective: Objective,
        decoder: bool,
        path: &Path,
    ) -> Result<Self, FitError> {
        let found = folder.architecture();
        let refuse = |why: String| Err(FitError::Checkpoint { folder: path.to_owned(), why });
        if folder.family() == Family::Bert && !BERTS.contains(&found) {
            return refuse(format!(
                "{found} would lose its head; give one of {}",
                BERTS.join(", ")
            ));
        }
        match (folder.family(), objective.writes(), decoder) {
            (Family::T5, true, false) => Ok(Self::T5),
            (Family::EncoderDecoder, true, false) => Ok(Self::TwoBerts),
            (Family::Opt, true, false) if objective == Objective::Policy => refuse(format!(
                "{found} is a decoder-only model, and rewards are learnt behind an encoder; give a T5, or two BERTs"
            )),
            (Family::Opt, true, false) => Ok(Self::Opt),
            (Family::Bert, true, true) => Ok(Self::NewDecoder),
            (Family::Bert, false, false) => Ok(Self::Encoder),
            (Family::Bert, true, false) => refuse(format!(
                "{found} writes nothing; give the sizes of a `decoder`, or the objective `similarity` or \
                 `contrastive`"
            )),
            (_, true, true) => {
                refuse(format!("{found} gets no new decoder; give a BERT, or leave out `decoder`"))
            }
            (_, true, false) => {
                refuse(format!("{found} cannot be trained; give a T5, two BERTs or an OPT"))
            }
            (Family::Bert, false, true) => refuse(format!(
                "a new `decoder` is trained by the objective `generation`, not `{}`",
                objective.name()
            )),
            (_, _, _) => refuse(format!(
                "{found} cannot be trained by the objective `{}`; give a BERT",
                objective.name()
            )),
        }
    }
}

impl Start {
    /// Fails if nothing can be trained by this objective from here; reads settings and the names of tensors, but no
    /// weights.
    pub fn check(&self, objective: Objective) -> Result<(), FitError> {
        let (path, sizes) = match self {
            Self::Scratch { sizes, .. } => return scratch::check(sizes, objective),
            Self::Checkpoint { folder, .. } => (folder, None),
            Self::WithDecoder { folder, decoder, .. } => (folder, Some(decoder)),
        };
        sizes.map_or(Ok(()), DecoderSizes::check)?;
        let folder = Folder::open(path)?;
        let trained = Trained::of(&folder, objective, sizes.is_some(), path)?;
        match trained {
            Trained::T5 => T5Shape::read(&folder).map(drop),
            Trained::TwoBerts => two_shapes(folder.config()).map(drop),
            Trained::Opt => Ok(OptShape::read(folder.config()).map(drop)?),
            Trained::Encoder => encoder_pool(&folder, path).map(drop),
            Trained::NewDecoder => decoder_shapes(&folder, sizes).map(drop),
        }
    }

    /// Whether it is a decoder-only model, which reads no passages apart and needs no input.
    pub fn is_decoder(&self) -> Result<bool, FitError> {
        match self {
            Self::Scratch { sizes, .. } => Ok(sizes.architecture() == Architecture::Opt),
            Self::Checkpoint { folder, .. } => Ok(Folder::open(folder)?.family() == Family::Opt),
            Self::WithDecoder { .. } => Ok(false),
        }
    }

    /// Fails if a model that begins so cannot be written to this folder, before anything is trained.
    pub fn check_target(&self, objective: Objective, target: &Path) -> Result<(), FitError> {
        let of_scratch = |name: &&str| *name != "special_tokens_map.json";
        let mut kept: Vec<&str> = match self {
            Self::Scratch { .. } => KEPT.into_iter().filter(of_scratch).collect(),
            Self::Checkpoint { folder, .. } | Self::WithDecoder { folder, .. } => {
                // They may lie in a folder inside.
                let opened = Folder::open(folder)?;
                KEPT.into_iter().filter(|name| opened.file(name).is_file()).collect()
            }
        };
        if let Self::WithDecoder { .. } = self {
            kept.push("generation_config.json");
        }
        if !objective.writes() {
            kept.extend(sentence::FILES);
        }
        folder::check(target, kept.into_iter().chain(["config.json"]))
    }
}

impl Start {
    /// Makes or reads all that the fit begins with.
    pub fn origin(
        &self,
        objective: Objective,
        train: &[Pair],
        seed: u64,
    ) -> Result<Origin, FitError> {
        self.check(objective)?;
        let (path, digested, sizes) = match self {
            Self::Scratch { sizes, tokens } => {
                return scratch(sizes, tokens, objective, train, seed);
            }
            Self::Checkpoint { folder, digested } => (folder, digested, None),
            Self::WithDecoder { folder, digested, decoder } => (folder, digested, Some(decoder)),
        };
        let folder = Folder::open(path)?;
        digested.as_ref().map_or(Ok(()), |digested| folder.expect(digested))?;
        let opened = Opened { folder: &folder, path };
        let origin = match Trained::of(&folder, objective, sizes.is_some(), path)? {
            Trained::T5 => {
                let plan = T5Shape::read(&folder)?.plan();
                opened.encoder_decoder(plan, None, Vec::new())?
            }
            Trained::TwoBerts => {
                let (encoder, decoder) = two_shapes(folder.config())?;
                let at = "decoder.cls.predictions.";
                let own = folder.has(&format!("{at}decoder.weight"));
                let plan = encoder.two_plan(&decoder, own);
                let mut spare = pooler("encoder.", "encoder.", encoder.width());
                if own {
                    let bias = format!("{at}bias");
                    spare.push((bias.clone(), bias, vec![plan.vocabulary]));
                }
                let positions = encoder.positions.min(decoder.positions);
                opened.encoder_decoder(plan, Some(positions), spare)?
            }
            Trained::Opt => {
                let shape = OptShape::read(folder.config())?;
                opened.decoder(shape.plan(), shape.positions)?
            }
            Trained::Encoder => opened.encoder()?,
            Trained::NewDecoder => opened.with_decoder(sizes, seed)?,
        };
        // All is read: what becomes of the files from now on does not matter.
        folder.watch().examine()?;
        Ok(origin)
    }
}

/// The shapes of both sides of two BERTs.
fn two_shapes(config: &Config) -> Result<(BertShape, BertShape), FitError> {
    let side = |key: &str| -> Result<BertShape, LoadError> {
        let expected = "the settings of this side of the model";
        BertShape::read(&config.section(key)?.ok_or_else(|| config.refuse(key, expected))?)
    };
    config.only("tie_encoder_decoder", false)?;
    Ok((side("encoder")?, side("decoder")?))
}

/// The shapes of a BERT, and of a decoder of these sizes behind it.
fn decoder_shapes(
    folder: &Folder,
    sizes: Option<&DecoderSizes>,
) -> Result<(BertShape, BertShape), FitError> {
    let encoder = BertShape::read(folder.config())?;
    let heads = sizes.and_then(|sizes| sizes.heads).unwrap_or_default();
    let decoder = sizes.and_then(|sizes| encoder.decoder(sizes));
    let expected = || format!("a divisor of the width {}", encoder.width());
    let decoder = decoder.ok_or_else(|| FitError::Setting {
        name: "heads",
        found: heads.to_string(),
        expected: expected(),
    })?;
    Ok((encoder, decoder))
}

/// Which rows make the vectors of an encoder, as the folder says; the mean where it says nothing.
fn encoder_pool(folder: &Folder, path: &Path) -> Result<Pool, FitError> {
    BertShape::read(folder.config())?;
    match folder.vector().map(|vector| vector.mode) {
        None | Some(VectorMode::Mean) => Ok(Pool::Mean),
        Some(VectorMode::First) => Ok(Pool::First),
        Some(VectorMode::Last | VectorMode::Pooler) => {
            let why = "vectors of this pooling cannot be trained; expected `mean` or `cls`";
            Err(FitError::Checkpoint { folder: path.to_owned(), why: why.to_owned() })
        }
    }
}

/// A tensor that is written as it was read: the name that it had and gets, and its sizes.
type Spare = (String, String, Vec<usize>);

/// The pooler of a BERT, which no vector here is made with.
fn pooler(from: &str, to: &str, width: usize) -> Vec<Spare> {
    let one = |(end, dims): (&str, Vec<usize>)| {
        let name = format!("pooler.dense.{end}");
        (format!("{from}{name}"), format!("{to}{name}"), dims)
    };
    [("weight", vec![width; 2]), ("bias", vec![width])].map(one).to_vec()
}

/// A checkpoint that is being read.
struct Opened<'a> {
    folder: &'a Folder,
    path: &'a Path,
}

impl Opened<'_> {
    fn refuse(&self, why: impl Into<String>) -> FitError {
        FitError::Checkpoint { folder: self.path.to_owned(), why: why.into() }
    }

    /// What ends outputs.
    fn end(&self, special: &Special) -> Result<u32, FitError> {
        let missing = || self.refuse("config.json has no `eos_token_id`");
        special.ends.first().copied().ok_or_else(missing)
    }

    /// A decoder-only model.
    fn decoder(&self, plan: Plan, positions: usize) -> Result<Origin, FitError> {
        // The files of others name the decoder without the model around it.
        let bare = !self.folder.has_under("model.decoder.");
        let named = |name: &str| match name.strip_prefix("model.") {
            Some(inner) if bare => inner.to_owned(),
            _ => name.to_owned(),
        };
        let end = self.end(&Special::read(self.folder)?)?;
        let mut config = self.config()?;
        config.insert("architectures".to_owned(), json!(["OPTForCausalLM"]));
        Ok(Origin {
            weights: plan.read(self.folder, 0, |name| Some(named(name)))?,
            writes: Some(Ends { begin: Begin::Input, end }),
            pool: Pool::Mean,
            positions: Some(positions),
            config,
            files: self.files()?,
            untrained: Vec::new(),
            reader: Reader::Checkpoint(Box::new(Codec::read(self.folder)?)),
            plan,
        })
    }

    /// An encoder and a decoder that write already.
    fn encoder_decoder(
        &self,
        plan: Plan,
        positions: Option<usize>,
        spare: Vec<Spare>,
    ) -> Result<Origin, FitError> {
        let special = Special::read(self.folder)?;
        let start = special
            .start
            .ok_or_else(|| self.refuse("config.json has no `decoder_start_token_id`"))?;
        let end = self.end(&special)?;
        Ok(Origin {
            weights: plan.read(self.folder, 0, |name| Some(self.named("", name)))?,
            writes: Some(Ends { begin: Begin::Token(start), end }),
            pool: Pool::Mean,
            positions,
            config: self.config()?,
            files: self.files()?,
            untrained: self.untrained(spare)?,
            reader: Reader::Checkpoint(Box::new(Codec::read(self.folder)?)),
            plan,
        })
    }

    /// An encoder whose vectors are trained.
    fn encoder(&self) -> Result<Origin, FitError> {
        let shape = BertShape::read(self.folder.config())?;
        let (plan, prefix) = (shape.encoder_plan(), self.prefix());
        let pool = encoder_pool(self.folder, self.path)?;
        let positions = self.folder.max_tokens().unwrap_or(shape.positions).min(shape.positions);
        let mut config = self.config()?;
        config.insert("architectures".to_owned(), json!(["BertModel"]));
        let mut files = self.files()?;
        let normalize = self.folder.vector().is_none_or(|vector| vector.normalize);
        files.extend(sentence::files(pool, normalize, shape.width(), positions));
        Ok(Origin {
            weights: plan.read(self.folder, 0, |name| Some(self.named(prefix, name)))?,
            writes: None,
            pool,
            positions: Some(positions),
            config,
            files,
            untrained: self.untrained(pooler(prefix, "", shape.width()))?,
            reader: Reader::Checkpoint(Box::new(Codec::read(self.folder)?)),
            plan,
        })
    }

    /// An encoder with a new decoder behind it, whose embeddings begin as the encoder's.
    fn with_decoder(&self, sizes: Option<&DecoderSizes>, seed: u64) -> Result<Origin, FitError> {
        let (shape, decoder) = decoder_shapes(self.folder, sizes)?;
        let (plan, prefix) = (shape.two_plan(&decoder, false), self.prefix());
        let weights = plan.read(self.folder, seed, |name| {
            let embedding =
                name.strip_prefix("decoder.bert.").filter(|it| it.starts_with("embeddings."));
            let source = name.strip_prefix("encoder.").or(embedding)?;
            Some(self.named(prefix, source))
        })?;
        let codec = Codec::read(self.folder)?;
        let (&[start], &[end]) = (codec.leading(), codec.trailing()) else {
            return Err(self.refuse(
                "its tokenizer puts not one token before and one behind a text, which would begin and end outputs",
            ));
        };
        let pad = Special::read(self.folder)?.pad.unwrap_or(0);
        let ends = json!({
            "decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": pad,
        });
        let mut encoder = self.config()?;
        for key in ["architectures", "dtype", "torch_dtype", "transformers_version"] {
            encoder.remove(key);
        }
        let config = json!({
            "architectures": ["EncoderDecoderModel"],
            "decoder": decoder.decoder_config(&encoder),
            "decoder_start_token_id": start,
            "encoder": encoder,
            "eos_token_id": end,
            "is_encoder_decoder": true,
            "model_type": "encoder-decoder",
            "pad_token_id": pad,
            "tie_word_embeddings": true,
        });
        let mut files = self.files()?;
        files.insert("generation_config.json".to_owned(), pretty(&ends));
        Ok(Origin {
            weights,
            writes: Some(Ends { begin: Begin::Token(start), end }),
            pool: Pool::Mean,
            positions: Some(shape.positions),
            config: object(config),
            files,
            untrained: self.untrained(pooler(prefix, "encoder.", shape.width()))?,
            reader: Reader::Checkpoint(Box::new(codec)),
            plan,
        })
    }

    /// What stands before the names of a BERT's tensors.
    fn prefix(&self) -> &'static str {
        if self.folder.has_under("bert.") { "bert." } else { "" }
    }

    /// The name of a tensor here; the oldest checkpoints call the parts of norms gamma and beta.
    fn named(&self, prefix: &str, name: &str) -> String {
        let name = format!("{prefix}{name}");
        let old = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];
        let old = old
            .iter()
            .find_map(|(new, old)| name.strip_suffix(new).map(|stem| format!("{stem}{old}")));
        old.filter(|old| self.folder.has(old)).unwrap_or(name)
    }

    /// Those that are there.
    fn untrained(&self, spare: Vec<Spare>) -> Result<Vec<Stored>, FitError> {
        let there = spare.into_iter().filter(|(from, ..)| self.folder.has(from));
        let read = |(from, to, dims): Spare| {
            let values = self.folder.tensor(&from, &dims)?.values();
            Ok((to, dims, values))
        };
        there.map(read).collect()
    }

    fn config(&self) -> Result<Map<String, Value>, FitError> {
        let config = self.folder.bytes("config.json")?.unwrap_or_default();
        serde_json::from_slice(&config)
            .map_err(|error| self.refuse(format!("config.json: {error}")))
    }

    fn files(&self) -> Result<BTreeMap<String, Vec<u8>>, FitError> {
        let mut files = BTreeMap::new();
        for name in KEPT {
            files.extend(self.folder.bytes(name)?.map(|bytes| (name.to_owned(), bytes)));
        }
        Ok(files)
    }
}
