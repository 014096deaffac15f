//! The record of an artifact: which objects are the result of a stage with this fingerprint.
//!
//! The record is created once: the first writer wins and everybody else adopts its result.

use std::collections::BTreeMap;

use arrow::datatypes::Schema;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::{Fingerprint, RunId, StageName};
use crate::store::columns::schema_from_hex;
use crate::store::error::Result;
use crate::store::sealed::{Record, seal, stored};
use crate::store::{
    Column, Created, Key, NamedFile, Part, Store, StoreError, Stored, artifact_key,
};

/// The version of records that this program writes and the newest that it reads.
pub const ARTIFACT_VERSION: u32 = 1;

/// The stored result of a stage, named by its fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Version of the record.
    pub v: u32,
    /// Digest over everything that can change the artifact.
    pub fingerprint: Fingerprint,
    /// Name of the stage that made it first.
    pub stage: StageName,
    /// Kind of that stage.
    pub kind: String,
    /// The run that made it.
    pub created_by: RunId,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Columns, for people.
    pub schema: Vec<Column>,
    /// The exact Arrow schema: hex digits of its IPC flatbuffer, empty when there are no rows by nature.
    pub schema_ipc: String,
    /// Rows of all parts.
    pub rows: u64,
    /// Bytes of all parts and files.
    pub bytes: u64,
    /// The rows.
    pub parts: Vec<Part>,
    /// Rows that failed.
    pub errors: Vec<Part>,
    /// Files, for artifacts that are not tables.
    pub files: Vec<NamedFile>,
    /// What the fingerprint covers, by name: for the explanation of a hit or a miss.
    pub components: BTreeMap<String, String>,
    /// Outcomes of the checks of the stage.
    pub checks: Vec<serde_json::Value>,
    /// Time that computing it took, in milliseconds.
    pub wall_ms: u64,
    /// Remarks for people.
    pub notes: Vec<String>,
}

impl Record for Artifact {
    const VERSION: u32 = ARTIFACT_VERSION;
}

impl Artifact {
    /// The exact schema of the rows; none when the artifact is not a table.
    pub fn arrow_schema(&self) -> Option<Schema> {
        match self.schema_ipc.as_str() {
            "" => None,
            hex => schema_from_hex(hex),
        }
    }

    /// Every object that the record names, with its size in bytes.
    pub fn objects(&self) -> Vec<(Key, u64)> {
        let parts =
            self.parts.iter().chain(&self.errors).map(|part| (part.key.clone(), part.bytes));
        parts.chain(self.files.iter().map(|file| (file.key.clone(), file.bytes))).collect()
    }
}

/// What the store holds for a fingerprint.
#[derive(Debug)]
pub enum Lookup {
    /// Nothing.
    Absent,
    /// A record that can be trusted; its objects may still be missing or damaged.
    Found(Stored<Artifact>),
    /// A record that cannot be trusted: treat it as absent and say why. Publishing replaces it.
    Damaged(StoreError),
}

impl Lookup {
    /// The record, if it can be trusted.
    pub fn found(self) -> Option<Stored<Artifact>> {
        match self {
            Self::Found(artifact) => Some(artifact),
            Self::Absent | Self::Damaged(_) => None,
        }
    }
}

/// Publishes a record; returns the one that counts, which is another one when somebody was faster.
///
/// # Errors
///
/// When the store fails, or a newer proofmill wrote the record that exists.
pub async fn publish(store: &Store, artifact: &Artifact) -> Result<Stored<Artifact>> {
    let key = artifact_key(&artifact.fingerprint);
    let bytes = seal(&key, artifact)?;
    if store.create(&key, bytes.clone()).await? == Created::Won {
        return stored(key, &bytes);
    }
    match find(store, &artifact.fingerprint).await? {
        Lookup::Found(theirs) => Ok(theirs),
        // Nobody can depend on a record that nobody can read.
        Lookup::Absent | Lookup::Damaged(_) => overwrite(store, key, bytes).await,
    }
}

/// Publishes a record instead of `broken`, whose objects are missing or damaged. Adopts the record that
/// somebody else put in its place meanwhile.
///
/// # Errors
///
/// As [`publish`].
pub async fn replace(
    store: &Store,
    artifact: &Artifact,
    broken: &Stored<Artifact>,
) -> Result<Stored<Artifact>> {
    match find(store, &artifact.fingerprint).await? {
        Lookup::Found(theirs) if theirs.sha256 != broken.sha256 => Ok(theirs),
        _ => {
            let key = artifact_key(&artifact.fingerprint);
            let bytes = seal(&key, artifact)?;
            overwrite(store, key, bytes).await
        }
    }
}

async fn overwrite(store: &Store, key: Key, bytes: Bytes) -> Result<Stored<Artifact>> {
    store.put(&key, bytes.clone().into()).await?;
    stored(key, &bytes)
}

/// The record with this fingerprint.
///
/// # Errors
///
/// When the store fails, or a newer proofmill wrote the record.
pub async fn find(store: &Store, fingerprint: &Fingerprint) -> Result<Lookup> {
    match store.get_opt(&artifact_key(fingerprint)).await? {
        Some(bytes) => examine(fingerprint, &bytes),
        None => Ok(Lookup::Absent),
    }
}

/// [`find`] for many fingerprints at once; the answers are in the order of `fingerprints`.
///
/// # Errors
///
/// As [`find`].
pub async fn find_many(store: &Store, fingerprints: &[Fingerprint]) -> Result<Vec<Lookup>> {
    let keys: Vec<Key> = fingerprints.iter().map(artifact_key).collect();
    let found = store.get_all(&keys).await?;
    let look = |(bytes, fingerprint): (Option<Bytes>, &Fingerprint)| match bytes {
        Some(bytes) => examine(fingerprint, &bytes),
        None => Ok(Lookup::Absent),
    };
    found.into_iter().zip(fingerprints).map(look).collect()
}

fn examine(fingerprint: &Fingerprint, bytes: &[u8]) -> Result<Lookup> {
    let key = artifact_key(fingerprint);
    match stored::<Artifact>(key.clone(), bytes) {
        Ok(found) if found.record.fingerprint == *fingerprint => Ok(Lookup::Found(found)),
        Ok(other) => {
            let reason = format!("it is the record of {}", other.record.fingerprint);
            Ok(Lookup::Damaged(StoreError::Damaged { key: key.to_string(), reason }))
        }
        Err(error @ StoreError::Damaged { .. }) => Ok(Lookup::Damaged(error)),
        Err(error) => Err(error),
    }
}
