//! Small files that are a part of a setting: schemas of answers, templates of prompts.

use std::fs::{self, File};
use std::io::Read;

use proofmill_pipeline::code::Code;

/// Most bytes of such a file.
const BYTES_MAX: u64 = 1 << 20;

/// The bytes of the file at `path`, relative to the working directory.
pub fn read(path: &str) -> Result<Vec<u8>, (Code, String)> {
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
pub fn read_text(path: &str) -> Result<String, (Code, String)> {
    String::from_utf8(read(path)?)
        .map_err(|error| (Code::WrongValue, format!("`{path}` is not UTF-8: {error}")))
}
