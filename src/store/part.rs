//! References to immutable objects: where they lie and what their bytes must be.

use serde::{Deserialize, Serialize};

use crate::Key;
use proofmill_base::digest::Digest;
use proofmill_base::ids::FilePath;

/// A Parquet object that a record names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub key: Key,
    /// Digest of the stored bytes.
    pub sha256: Digest,
    /// Size of the stored object, in bytes.
    pub bytes: u64,
    pub rows: u64,
}

/// A file of any format that a record names, such as one of an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedFile {
    /// The name under which its reader expects it; never part of a key.
    pub name: FilePath,
    pub key: Key,
    /// Digest of the stored bytes.
    pub sha256: Digest,
    /// Size of the stored object, in bytes.
    pub bytes: u64,
}
