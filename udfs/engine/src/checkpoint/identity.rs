//! What makes a model this model and no other.

use serde::{Deserialize, Serialize};

use super::digest::{DigestCache, Trust, digest_of_parts};
use super::open_file::{Digested, Part};
use super::{Digest, Family, Folder, LoadError};

/// The name of a model by its content: two folders with the same identity answer alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub family: Family,
    /// The class of transformers it was saved from.
    pub architecture: String,
    /// Numbers that training changes.
    pub parameters: u64,
    /// Of all files of weights, see [`digest_of_parts`]; names without folders, sorted.
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
        Ok(Self::of(folder, &folder.digested(cache, trust)?))
    }

    /// The identity of a folder whose files were digested.
    pub fn of(folder: &Folder, digested: &Digested) -> Self {
        let combine = |parts: &[Part]| {
            digest_of_parts(parts.iter().map(|part| (part.name.as_str(), part.digest)))
        };
        Self {
            family: folder.family(),
            architecture: folder.architecture().to_owned(),
            parameters: folder.parameters(),
            weights_digest: combine(&digested.weights),
            tokenizer_digest: combine(&digested.tokenizer),
            config_digest: combine(&digested.settings),
        }
    }
}
