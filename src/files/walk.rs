//! Globs: which files below a folder match a pattern.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::error::FilesError;
use crate::limits::FILES_MAX;
use crate::links::{dangling_link, is_absent, is_file};

/// A pattern: a folder without wildcards, and what must match below it.
#[derive(Debug)]
pub struct Pattern {
    text: String,
    folder: PathBuf,
    matcher: GlobMatcher,
    /// Levels of folders below `folder` to look into.
    depth: usize,
}

impl Pattern {
    /// Whether a path is meant as a pattern.
    pub fn is_one(text: &str) -> bool {
        text.contains(['*', '?', '[', '{'])
    }

    /// Parses a pattern: `*` and `?` within a name, `[…]`, `{a,b}`, and `**` for any folders.
    pub fn parse(text: &str) -> Result<Self, FilesError> {
        let wildcard = text.find(['*', '?', '[', '{']).unwrap_or(text.len());
        let (folder, below) = match text[..wildcard].rfind('/') {
            Some(slash) => (&text[..=slash], &text[slash + 1..]),
            None => ("", text),
        };
        let glob = GlobBuilder::new(below).literal_separator(true).backslash_escape(false).build();
        let matcher = glob.map_err(|error| FilesError::Pattern {
            pattern: text.to_owned(),
            reason: error.kind().to_string(),
        })?;
        Ok(Self {
            text: text.to_owned(),
            folder: PathBuf::from(folder),
            matcher: matcher.compile_matcher(),
            depth: if below.contains("**") { usize::MAX } else { below.matches('/').count() },
        })
    }
}

/// Whether a name is left out unless it is named itself.
pub fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// All files that match, in no order. Folders that are links are not entered.
pub fn walk(pattern: &Pattern) -> Result<Vec<PathBuf>, FilesError> {
    let mut files = Vec::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    let mut seen = 0;
    while let Some((below, depth)) = folders.pop() {
        let folder = pattern.folder.join(&below);
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let failed = |error| FilesError::io(&folder.to_string_lossy(), error);
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // A folder that is not there holds no matching file. One that is not ours to read might.
            Err(error) if is_absent(&error) => match dangling_link(folder) {
                Some(dangling) => return Err(dangling),
                None => continue,
            },
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            seen += 1;
            if seen > FILES_MAX {
                return Err(FilesError::TooManyFiles { path: pattern.text.clone() });
            }
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let below = below.join(&name);
            if is_hidden(&name) {
                continue;
            }
            if kind.is_dir() {
                if depth < pattern.depth {
                    folders.push((below, depth + 1));
                }
                continue;
            }
            let path = pattern.folder.join(&below);
            if pattern.matcher.is_match(&below) && is_file(&path)? {
                files.push(path);
            }
        }
    }
    Ok(files)
}
