//! The record of an artifact: which objects are the result of a stage with this fingerprint, and of
//! which tables they were made.
//!
//! The record is created once: the first writer wins, and a process that made its own of the same
//! tables adopts that result. A record that is replaced keeps a copy under its digest, for the runs
//! that name it.

use std::collections::BTreeMap;

use arrow::datatypes::Schema;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::columns::schema_from_hex;
use crate::error::Result;
use crate::sealed::{Record, seal, stored};
use crate::{
    Column, Created, Extensions, Key, NamedFile, Part, Store, StoreError, Stored, artifact_key,
    replaced_artifact_key,
};
use proofmill_base::digest::Digest;
use proofmill_base::ids::{Fingerprint, RunId, StageName};

/// The version of records that this program writes and the newest that it reads.
pub const ARTIFACT_VERSION: u32 = 4;

/// The stored result of a stage, named by its fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    pub v: u32,
    /// Digest over everything that can change the artifact.
    pub fingerprint: Fingerprint,
    /// Name of the stage that made it first.
    pub stage: StageName,
    pub kind: String,
    pub created_by: RunId,
    pub created_at: DateTime<Utc>,
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
    /// The tables that it was made of: under the name of each input among the components, the
    /// [`Artifact::digest`] of its table. `None` in a record of version 1, which did not say.
    #[serde(default)]
    pub inputs: Option<BTreeMap<String, Digest>>,
    /// Rows of `errors` that failed for a reason that may pass, such as a timeout of an endpoint.
    #[serde(default)]
    pub transient_errors: u64,
    /// What the checks of the stage found.
    pub checks: Vec<serde_json::Value>,
    /// Time that computing it took, in milliseconds.
    pub wall_ms: u64,
    /// What else computing it took. Unknown before version 3.
    #[serde(default)]
    pub usage: Option<StageUsage>,
    pub notes: Vec<String>,
    /// The root of the hash tree over all rows in order; none of tables with more than
    /// [`ROOTED_ROWS_MAX`](crate::ROOTED_ROWS_MAX) rows, of files, and before version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_root: Option<Digest>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: Extensions,
}

/// What computing a table took beside time, from which [`wall_ms`](Artifact::wall_ms) of more rows can be estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageUsage {
    /// Rows of all inputs together.
    pub input_rows: u64,
    /// Requests that models answered, equal ones once.
    pub answered: u64,
    /// Rows whose answers the ledger had.
    pub replayed: u64,
    /// Prompt and new tokens of the requests that models answered.
    pub tokens: u64,
}

impl Record for Artifact {
    const VERSION: u32 = ARTIFACT_VERSION;
    const OLDEST: u32 = 1;
}

impl Artifact {
    /// The exact schema of the rows; none when the artifact is not a table.
    pub fn arrow_schema(&self) -> Option<Schema> {
        match self.schema_ipc.as_str() {
            "" => None,
            hex => schema_from_hex(hex),
        }
    }

    /// Digest of what others read of it: schema, rows and files, wherever they lie. Two artifacts with
    /// the same digest are the same table.
    pub fn digest(&self) -> Digest {
        let mut text = format!("{}\n", self.schema_ipc);
        for part in &self.parts {
            text.push_str(&format!("part {} {}\n", part.sha256, part.rows));
        }
        for file in &self.files {
            text.push_str(&format!("file {} {}\n", file.sha256, file.name));
        }
        Digest::of(text.as_bytes())
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

/// Publishes a record; returns the one that counts, which is another one when somebody was faster with
/// the same inputs.
///
/// # Errors
///
/// When the store fails, or a newer proofmill wrote the record that exists.
pub async fn publish(store: &Store, artifact: &Artifact) -> Result<Stored<Artifact>> {
    let key = artifact_key(&artifact.fingerprint);
    let bytes = seal(&key, artifact)?;
    match store.create(&key, bytes.clone()).await? {
        Created::Won => stored(key, &bytes),
        Created::Lost(theirs) => adopt_or_replace(store, artifact, theirs, None).await,
    }
}

/// Publishes a record instead of `old`: its objects are missing or damaged, it was made of other tables,
/// or recomputation was requested. Adopts the record that somebody else put in its place meanwhile.
///
/// # Errors
///
/// As [`publish`].
pub async fn replace(
    store: &Store,
    artifact: &Artifact,
    old: &Stored<Artifact>,
) -> Result<Stored<Artifact>> {
    match store.get_opt(&artifact_key(&artifact.fingerprint)).await? {
        Some(bytes) => adopt_or_replace(store, artifact, bytes, Some(old.sha256)).await,
        None => publish(store, artifact).await,
    }
}

/// Adopts the record `found`, unless it is the one with the digest `old`, was made of other tables than
/// `artifact`, or cannot be read: then `artifact` takes its place.
async fn adopt_or_replace(
    store: &Store,
    artifact: &Artifact,
    found: Bytes,
    old: Option<Digest>,
) -> Result<Stored<Artifact>> {
    let fingerprint = &artifact.fingerprint;
    if let Lookup::Found(theirs) = examine(fingerprint, &found)? {
        if old != Some(theirs.sha256) && theirs.record.inputs == artifact.inputs {
            return Ok(theirs);
        }
        // Runs that name it by digest still find it.
        keep(store, fingerprint, found).await?;
    }
    let key = artifact_key(fingerprint);
    let bytes = seal(&key, artifact)?;
    // Before it counts: two that replace one record at the same time both stay readable.
    keep(store, fingerprint, bytes.clone()).await?;
    store.put(&key, bytes.clone().into()).await?;
    stored(key, &bytes)
}

/// Keeps the record of a table that must not be used, for people to look at: [`find_exact`] finds it, and no
/// fingerprint leads to it.
///
/// # Errors
///
/// When the store fails.
pub async fn keep_aside(store: &Store, artifact: &Artifact) -> Result<Stored<Artifact>> {
    let key = artifact_key(&artifact.fingerprint);
    let bytes = seal(&key, artifact)?;
    keep(store, &artifact.fingerprint, bytes.clone()).await?;
    stored(key, &bytes)
}

/// Keeps a copy of a record under its digest.
async fn keep(store: &Store, fingerprint: &Fingerprint, bytes: Bytes) -> Result<()> {
    store.create(&replaced_artifact_key(fingerprint, Digest::of(&bytes)), bytes).await?;
    Ok(())
}

/// The very record that a run names by its digest, whether or not it was replaced since.
///
/// # Errors
///
/// [`StoreError::Replaced`] when it is not in the store, [`StoreError::Damaged`] when what is there
/// cannot be read; when the store fails.
pub async fn find_exact(
    store: &Store,
    fingerprint: &Fingerprint,
    sha256: Digest,
) -> Result<Stored<Artifact>> {
    let bytes = artifact_bytes(store, fingerprint, sha256).await?;
    stored(artifact_key(fingerprint), &bytes)
}

/// [`find_exact`] for many records at once, as far as they lie under their fingerprints: `None` for one that does not, which
/// may be a copy, or missing. In the order of `named`.
///
/// # Errors
///
/// When the store fails.
pub async fn find_current(
    store: &Store,
    named: &[(Fingerprint, Digest)],
) -> Result<Vec<Option<Stored<Artifact>>>> {
    let keys: Vec<Key> = named.iter().map(|(fingerprint, _)| artifact_key(fingerprint)).collect();
    let found = store.get_all(&keys).await?;
    let named = named.to_vec();
    let read = move || {
        let all = found.into_iter().zip(keys).zip(named);
        let records = all.map(|((bytes, key), (_, sha256))| {
            let bytes = bytes.filter(|bytes| Digest::of(bytes) == sha256)?;
            stored(key, &bytes).ok()
        });
        records.collect()
    };
    Ok(tokio::task::spawn_blocking(read).await?)
}

/// The stored bytes of the very record that [`find_exact`] finds.
///
/// # Errors
///
/// As [`find_exact`].
pub async fn artifact_bytes(
    store: &Store,
    fingerprint: &Fingerprint,
    sha256: Digest,
) -> Result<Bytes> {
    let key = artifact_key(fingerprint);
    let mut absent = StoreError::Replaced { key: key.to_string(), expected: sha256 };
    for at in [key, replaced_artifact_key(fingerprint, sha256)] {
        let Some(bytes) = store.get_opt(&at).await? else { continue };
        if Digest::of(&bytes) == sha256 {
            return Ok(bytes);
        }
        if let Lookup::Damaged(error) = examine(fingerprint, &bytes)? {
            absent = error;
        }
    }
    Err(absent)
}

/// Reads `bytes` as the record at `key`, whichever fingerprint that is.
///
/// # Errors
///
/// [`StoreError::Damaged`] or [`StoreError::Newer`]; also if the record is not one that lies there.
pub fn read_artifact(key: &Key, bytes: &[u8]) -> Result<Stored<Artifact>> {
    let found: Stored<Artifact> = stored(key.clone(), bytes)?;
    let fingerprint = &found.record.fingerprint;
    let places = [artifact_key(fingerprint), replaced_artifact_key(fingerprint, found.sha256)];
    match places.contains(key) {
        true => Ok(found),
        false => {
            let reason = format!("it is the record of {fingerprint}, or was changed");
            Err(StoreError::Damaged { key: key.to_string(), reason })
        }
    }
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
