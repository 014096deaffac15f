//! A model's folder, opened: its configuration is read, its weights are mapped and their headers
//! checked, nothing is computed.

use std::path::{Path, PathBuf};

use super::sentence::{Sentence, VectorSettings};
use super::tensors::{Tensors, open_weights};
use super::{Config, Family, LoadError, Stored};

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
    settings: Vec<(String, PathBuf)>,
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
        settings.push(sentence.transformer.join("config.json"));
        if generation.is_some() {
            settings.push(sentence.transformer.join("generation_config.json"));
        }
        let mut settings: Vec<_> = settings
            .into_iter()
            .map(|name| (name.to_string_lossy().into_owned(), path.join(name)))
            .collect();
        settings.sort();
        Ok(Self {
            path: transformer,
            config,
            generation,
            family,
            architecture,
            tensors,
            vector: sentence.vector,
            max_tokens: sentence.max_tokens,
            settings,
        })
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

    /// The files of settings that were read: name in the folder and path, in order of the names.
    pub fn settings(&self) -> &[(String, PathBuf)] {
        &self.settings
    }

    /// The files of weights, in order of their names.
    pub fn weights(&self) -> &[PathBuf] {
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
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Stored, LoadError> {
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
