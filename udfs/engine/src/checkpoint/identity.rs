//! What makes a model this model and no other.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::digest::{Digest, DigestCache, Trust};
use super::{Family, Folder, LoadError};

/// Files beside `tokenizer.json` that change how texts become tokens.
const TOKENIZER: [&str; 3] = ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"];

/// The name of a model by its content: two folders with the same identity answer alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The family.
    pub family: Family,
    /// The class of transformers it was saved from.
    pub architecture: String,
    /// Numbers that training changes.
    pub parameters: u64,
    /// Of all files of weights, see [`Digest::of_parts`]; names without folders, sorted.
    pub weights_digest: Digest,
    /// Of `tokenizer.json` and the settings beside it, likewise.
    pub tokenizer_digest: Digest,
    /// Of `config.json`, `generation_config.json` and those of sentence-transformers, likewise; names
    /// relative to the folder.
    pub config_digest: Digest,
}

impl Identity {
    /// Reads the files, or the cache where it knows them. No weights are loaded.
    pub fn read(folder: &Folder, cache: &DigestCache, trust: Trust) -> Result<Self, LoadError> {
        let tokenizer = folder.file("tokenizer.json");
        if !tokenizer.is_file() {
            return Err(LoadError::Absent { file: tokenizer, remedy: NO_TOKENIZER });
        }
        let weights = folder.weights().iter().map(|file| (file_name(file), file.clone()));
        let tokenizer = TOKENIZER.map(|name| (name.to_owned(), folder.file(name)));
        let tokenizer = tokenizer.into_iter().filter(|(_, file)| file.is_file());
        let combine = |files: Vec<(String, std::path::PathBuf)>| -> Result<Digest, LoadError> {
            let digests: Vec<(String, Digest)> = files
                .into_iter()
                .map(|(name, file)| Ok((name, cache.digest(&file, trust)?)))
                .collect::<Result<_, LoadError>>()?;
            Ok(Digest::of_parts(digests.iter().map(|(name, digest)| (name.as_str(), *digest))))
        };
        Ok(Self {
            family: folder.family(),
            architecture: folder.architecture().to_owned(),
            parameters: folder.parameters(),
            weights_digest: combine(weights.collect())?,
            tokenizer_digest: combine(tokenizer.collect())?,
            config_digest: combine(folder.settings().to_vec())?,
        })
    }
}

/// What to do about a folder without `tokenizer.json`.
pub(super) const NO_TOKENIZER: &str = "write it once with transformers: \
     AutoTokenizer.from_pretrained(folder).save_pretrained(folder)";

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
