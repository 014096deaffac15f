//! The texts that a run is made of, put into the store before anything is computed.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use crate::stages::plan::Prepared;
use crate::stages::settings_file::SourceFile;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_pipeline::source::Sources;
use proofmill_store::{SourceRef, SourceRefs, SourceRole, Store, keep_sources};

/// Size up to which a file is copied, in bytes; of a larger one the run keeps the digest.
const COPIED_BYTES_MAX: u64 = 16 << 20;
/// Files that are read at the same time.
const READ_AT_ONCE: usize = 8;

/// Which texts of a run go into the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    #[default]
    All,
    /// Not the code of programs, of which the run keeps the digests.
    WithoutCode,
}

/// Puts the texts of a pipeline into the store, and names all of them.
///
/// # Errors
///
/// If a file is not what it was when the pipeline was read, or the store fails.
pub async fn keep(
    texts: &Sources,
    prepared: &Prepared,
    copies: Copies,
    store: &Store,
) -> Result<SourceRefs> {
    let (mut named, mut kept) = (SourceRefs::new(), Vec::new());
    let mut roles =
        std::iter::once(SourceRole::Pipeline).chain(std::iter::repeat(SourceRole::Template));
    for (text, role) in texts.all().zip(&mut roles) {
        let bytes = Bytes::copy_from_slice(text.text.as_bytes());
        named.insert(text.name.clone(), source(role, &bytes));
        kept.push(bytes);
    }
    let files: Vec<&SourceFile> = prepared.stages.values().flat_map(|stage| &stage.files).collect();
    let mut reads = Vec::new();
    for file in files {
        if named.contains_key(&file.path) {
            continue;
        }
        let copied = copies == Copies::All || file.role != SourceRole::Code;
        let stored = copied && file.bytes <= COPIED_BYTES_MAX;
        let SourceFile { role, sha256, bytes, .. } = *file;
        named.insert(file.path.clone(), SourceRef { role, sha256, bytes, stored });
        if stored {
            reads.push(read(file.path.clone(), sha256));
        }
    }
    kept.extend(stream::iter(reads).buffered(READ_AT_ONCE).try_collect::<Vec<_>>().await?);
    keep_sources(store, kept).await?;
    Ok(named)
}

fn source(role: SourceRole, bytes: &[u8]) -> SourceRef {
    SourceRef { role, sha256: Digest::of(bytes), bytes: bytes.len() as u64, stored: true }
}

async fn read(path: String, sha256: Digest) -> Result<Bytes> {
    let usage = |message: String| {
        Error::new(ErrorKind::Usage, message).with_hint("run again; nothing was computed")
    };
    match tokio::fs::read(&path).await {
        Ok(bytes) if Digest::of(&bytes) == sha256 => Ok(bytes.into()),
        Ok(_) => Err(usage(format!("`{path}` has changed since the pipeline was read"))),
        Err(error) => Err(usage(format!("`{path}` cannot be read: {error}"))),
    }
}
