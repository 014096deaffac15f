//! Texts that runs were made of: pipeline files, templates, prompts, code. Each is stored once, under its digest.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::{Created, Key, Store, StoreError, source_key};
use proofmill_base::digest::Digest;

/// Texts that are stored at the same time.
const STORED_AT_ONCE: usize = 16;

/// The texts that a run was made of, by the paths under which it read them.
pub type SourceRefs = BTreeMap<String, SourceRef>;

/// A text that a run was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRef {
    pub role: SourceRole,
    /// Digest of its bytes.
    pub sha256: Digest,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the store has it: code can be left out, and large files are.
    pub stored: bool,
}

/// What a text is to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceRole {
    /// The pipeline file itself.
    Pipeline,
    /// A file that a pipeline file uses.
    Template,
    /// A file named by a setting: a prompt, a schema of answers.
    Setting,
    /// A declared file of a program.
    Code,
    /// What a gate found in runs.
    Verdict,
}

impl SourceRef {
    /// Where the store has it.
    pub fn key(&self) -> Key {
        source_key(self.sha256)
    }
}

/// Stores texts that are not there yet.
///
/// # Errors
///
/// [`StoreError::Corrupt`] if another content lies under a digest; a failure to store.
pub async fn keep_sources(store: &Store, texts: Vec<Bytes>) -> Result<()> {
    let mut missing = BTreeMap::new();
    let digests: Vec<Digest> = texts.iter().map(|text| Digest::of(text)).collect();
    let keys: Vec<Key> = digests.iter().map(|digest| source_key(*digest)).collect();
    for (at, is_present) in store.present_all(&keys).await?.into_iter().enumerate() {
        if !is_present {
            missing.insert(keys[at].clone(), (digests[at], texts[at].clone()));
        }
    }
    let puts: Vec<_> = missing
        .into_iter()
        .map(|(key, (expected, text))| async move {
            match store.create(&key, text).await? {
                Created::Won => Ok(()),
                Created::Lost(other) => {
                    let (key, found) = (key.to_string(), Digest::of(&other));
                    Err(StoreError::Corrupt { key, expected, found })
                }
            }
        })
        .collect();
    stream::iter(puts).buffer_unordered(STORED_AT_ONCE).try_collect().await
}

/// A stored text, checked.
///
/// # Errors
///
/// [`StoreError::Missing`] when it is not there; [`StoreError::Corrupt`] or [`StoreError::WrongSize`] when it is another.
pub async fn read_source(store: &Store, source: &SourceRef) -> Result<Bytes> {
    let key = source.key();
    // One of another size is not read: it may not fit into memory.
    if let Some(found) = store.size(&key).await?.filter(|size| *size != source.bytes) {
        return Err(StoreError::WrongSize { key: key.to_string(), expected: source.bytes, found });
    }
    let bytes = store.get(&key).await?;
    let found = Digest::of(&bytes);
    match found == source.sha256 {
        true => Ok(bytes),
        false => {
            let (key, expected) = (key.to_string(), source.sha256);
            Err(StoreError::Corrupt { key, expected, found })
        }
    }
}
