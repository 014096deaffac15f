//! A model's folder, opened: its configuration is read, its weights are mapped and their headers
//! checked, nothing is computed.

use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::Arc;

use super::digest::{DigestCache, Trust};
use super::error::NO_TOKENIZER;
use super::open_file::{Digested, Files, OpenFile, Part, Watch};
use super::sentence::{Sentence, VectorSettings};
use super::tensors::{Tensors, open_weights};
use super::{Config, Family, LoadError, StoredTensor};

/// `tokenizer.json` and the files beside it that change how texts become tokens.
const TOKENIZER: [&str; 4] =
    [CHAT_TEMPLATE, "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"];
/// Where newer versions of transformers write it.
const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// A folder as transformers or sentence-transformers write it.
#[derive(Debug)]
pub struct Folder {
    /// Where the transformer lies.
    path: PathBuf,
    config: Config,
    generation: Option<Config>,
    family: Family,
    architecture: String,
    tensors: Tensors,
    vector: Option<VectorSettings>,
    max_tokens: Option<usize>,
    /// The files that settings and special tokens were read from, by their names in the folder.
    settings: Files,
    /// The files of [`TOKENIZER`] that are there.
    tokenizer: Files,
}

impl Folder {
    /// Opens a folder.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let sentence = Sentence::read(path)?;
        let transformer = path.join(&sentence.transformer);
        let file = transformer.join("config.json");
        if !file.is_file() {
            let remedy = "give the folder that holds config.json, model.safetensors and \
                          tokenizer.json";
            return Err(LoadError::Absent { file, remedy });
        }
        let config = Config::read(&file)?;
        if config.has("quantization_config") {
            let expected = "absent: weights must be f32, f16 or bf16";
            return Err(config.refuse("quantization_config", expected));
        }
        let (family, architecture) = Family::parse(&config)?;
        let generation = Config::read_if_there(&transformer.join("generation_config.json"))?;
        let tensors = open_weights(&transformer, &architecture)?;
        let mut settings = sentence.files;
        for config in [Some(&config), generation.as_ref()].into_iter().flatten() {
            let name = config.file().strip_prefix(path).unwrap_or(config.file());
            settings.push((name.to_string_lossy().into_owned(), Arc::clone(config.held())));
        }
        settings.sort_by(|a, b| a.0.cmp(&b.0));
        let mut tokenizer = Files::new();
        for name in TOKENIZER {
            let file = transformer.join(name);
            if file.is_file() {
                tokenizer.push((name.to_owned(), Arc::new(OpenFile::open(&file)?)));
            }
        }
        let opened = Self {
            path: transformer,
            config,
            generation,
            family,
            architecture,
            tensors,
            vector: sentence.vector,
            max_tokens: sentence.max_tokens,
            settings,
            tokenizer,
        };
        // A process that replaced some of the files meanwhile would leave half of one model and
        // half of another.
        opened.watch().0.iter().try_for_each(|held| held.still_there())?;
        Ok(opened)
    }

    /// Digests the files, or takes the digests from the cache where it knows them.
    pub fn digested(&self, cache: &DigestCache, trust: Trust) -> Result<Digested, LoadError> {
        let weights = self.weight_files();
        if self.tokenizer("tokenizer.json").is_none() {
            let file = self.file("tokenizer.json");
            return Err(LoadError::Absent { file, remedy: NO_TOKENIZER });
        }
        for (_, held) in weights.iter().chain(&self.tokenizer).chain(&self.settings) {
            cache.digest_held(held, trust)?;
        }
        Ok(Digested {
            weights: Part::of(&weights),
            tokenizer: Part::of(&self.tokenizer),
            settings: Part::of(&self.settings),
        })
    }

    /// Fails unless the files are, byte for byte, those that were digested.
    pub fn expect(&self, digested: &Digested) -> Result<(), LoadError> {
        let parts = [
            (&digested.weights, &self.weight_files()),
            (&digested.tokenizer, &self.tokenizer),
            (&digested.settings, &self.settings),
        ];
        parts.into_iter().try_for_each(|(parts, files)| Part::expect(parts, files, &self.path))
    }

    /// The open files, to see whether somebody writes to one while the model is used.
    pub fn watch(&self) -> Watch {
        let named = self.tokenizer.iter().chain(&self.settings).map(|(_, held)| held);
        Watch(self.tensors.files().iter().chain(named).cloned().collect())
    }

    /// A file of the tokenizer as it was opened, if it is there.
    pub(super) fn tokenizer(&self, name: &str) -> Option<&Arc<OpenFile>> {
        self.tokenizer.iter().find(|(known, _)| known == name).map(|(_, held)| held)
    }

    /// The bytes of a file of settings or of the tokenizer, as it was opened; `None` if it is not there
    /// or not of the model.
    pub fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, LoadError> {
        let file = self.file(name);
        let mut all = self.tokenizer.iter().chain(&self.settings).map(|(_, held)| held);
        all.find(|held| held.path() == file).map(|held| held.read()).transpose()
    }

    /// How messages become a text, in Jinja: a file of its own, or a key of `tokenizer_config.json`.
    pub fn chat_template(&self) -> Result<Option<String>, LoadError> {
        if let Some(held) = self.tokenizer(CHAT_TEMPLATE) {
            let text = String::from_utf8(held.read()?);
            let refuse = |error: FromUtf8Error| LoadError::Tokenizer {
                file: held.path().to_owned(),
                why: error.to_string(),
            };
            return text.map(Some).map_err(refuse);
        }
        let settings =
            self.tokenizer("tokenizer_config.json").cloned().map(Config::of).transpose()?;
        Ok(settings.and_then(|it| it.named_text("chat_template").map(str::to_owned)))
    }

    fn weight_files(&self) -> Files {
        let name = |held: &Arc<OpenFile>| {
            held.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        self.weights().iter().map(|held| (name(held), Arc::clone(held))).collect()
    }

    /// The same folder, with another way to make vectors than the folder's own.
    pub fn with_vector(self, vector: VectorSettings) -> Self {
        Self { vector: Some(vector), ..self }
    }

    /// How texts become vectors, if the folder or the caller says so.
    pub fn vector(&self) -> Option<VectorSettings> {
        self.vector
    }

    /// Most tokens of a text by sentence-transformers, special ones included.
    pub fn max_tokens(&self) -> Option<usize> {
        self.max_tokens
    }

    /// `config.json`.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// `generation_config.json`, if there is one.
    pub fn generation(&self) -> Option<&Config> {
        self.generation.as_ref()
    }

    /// The family of the model.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The class of transformers it was saved from.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The path of a file beside `config.json`, whether or not it exists.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The files of settings that were read, by their names in the folder, in order of these.
    pub fn settings(&self) -> &[(String, Arc<OpenFile>)] {
        &self.settings
    }

    /// The files of weights, in order of their names.
    pub fn weights(&self) -> &[Arc<OpenFile>] {
        self.tensors.files()
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.has(name)
    }

    /// Whether any tensor's name begins so.
    pub fn has_under(&self, prefix: &str) -> bool {
        self.tensors.shapes().any(|(name, _)| name.starts_with(prefix))
    }

    /// The tensor of this name, which must have this shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<StoredTensor, LoadError> {
        self.tensors.get(name, shape)
    }

    /// Numbers in all tensors that training changes. Masks and the like are not counted, and an
    /// embedding that is stored again for encoder and decoder counts once.
    pub fn parameters(&self) -> u64 {
        let shared = |name: &str| {
            ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"].iter().any(|copy| {
                let prefix = name.strip_suffix(copy);
                prefix.is_some_and(|prefix| self.has(&format!("{prefix}shared.weight")))
            })
        };
        self.tensors
            .shapes()
            .filter(|(name, _)| !is_buffer(name) && !shared(name))
            .map(|(_, shape)| shape.iter().map(|&n| n as u64).product::<u64>())
            .sum()
    }
}

/// Whether a tensor is a constant that some versions of transformers store with the weights.
fn is_buffer(name: &str) -> bool {
    [".attn.bias", ".attn.masked_bias", "position_ids", "rotary_emb.inv_freq", "final_logits_bias"]
        .iter()
        .any(|end| name.ends_with(end))
}
