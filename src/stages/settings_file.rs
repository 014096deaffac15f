//! Files that a pipeline is made of beside its own text: small ones that are a part of a setting (schemas of answers,
//! templates of prompts), and the code of its programs.

use std::fs::{self, File};
use std::io::Read;

use proofmill_base::digest::Digest;
use proofmill_pipeline::code::Code;
use proofmill_store::SourceRole;

use crate::stages::stored_tables::FromStore;

/// Most bytes of such a file.
const BYTES_MAX: u64 = 1 << 20;

/// A file as it was when the pipeline was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// As the user wrote it, relative to the working directory.
    pub path: String,
    pub role: SourceRole,
    pub sha256: Digest,
    pub bytes: u64,
}

/// The bytes of the file at `path`, relative to the working directory. It becomes one of `files`.
pub fn read(
    path: &str,
    from_store: &FromStore,
    files: &mut Vec<SourceFile>,
) -> Result<Vec<u8>, (Code, String)> {
    let bytes = match &from_store.texts {
        Some(texts) => texts
            .get(path)
            .cloned()
            .ok_or_else(|| (Code::SourceMissing, format!("the run kept no text `{path}`")))?,
        None => read_disk(path)?,
    };
    files.push(SourceFile {
        path: path.to_owned(),
        role: SourceRole::Setting,
        sha256: Digest::of(&bytes),
        bytes: bytes.len() as u64,
    });
    Ok(bytes)
}

fn read_disk(path: &str) -> Result<Vec<u8>, (Code, String)> {
    let unreadable =
        |error: std::io::Error| (Code::SourceMissing, format!("`{path}` cannot be read: {error}"));
    // To open a pipe would wait for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err((Code::SourceMissing, format!("`{path}` is not a regular file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err((Code::WrongValue, format!("`{path}` has more than {BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// The same, of text in UTF-8.
pub fn read_text(
    path: &str,
    from_store: &FromStore,
    files: &mut Vec<SourceFile>,
) -> Result<String, (Code, String)> {
    String::from_utf8(read(path, from_store, files)?)
        .map_err(|error| (Code::WrongValue, format!("`{path}` is not UTF-8: {error}")))
}
