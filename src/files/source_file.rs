//! A file of a source: where it is, and the bytes that it had when it was opened.

use std::path::PathBuf;

use proofmill_base::digest::Digest;
use proofmill_pipeline::kinds::read::Compression;

use crate::held::Shared;
use crate::locate::Located;

#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path, as it was given or found.
    pub path: String,
    pub bytes: u64,
    /// The digest of its bytes.
    pub digest: Digest,
    pub(super) location: PathBuf,
    pub(super) compression: Compression,
    /// Names of the columns, for formats with cells.
    pub(super) header: Option<Vec<String>>,
    /// Row groups, for Parquet.
    pub(super) groups: Vec<Group>,
    /// The file while it is read, for Parquet.
    pub(super) held: Shared,
}

impl SourceFile {
    /// A file of which only its bytes are known.
    pub(super) fn new(file: Located, digest: Digest, bytes: u64) -> Self {
        Self {
            path: file.shown,
            bytes,
            digest,
            location: file.path,
            compression: Compression::None,
            header: None,
            groups: Vec::new(),
            held: Shared::default(),
        }
    }
}

/// A row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    pub rows: u64,
    /// Its compressed size.
    pub bytes: u64,
}
