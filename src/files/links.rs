//! Whether a path leads to a file, and which link keeps it from one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::FilesError;

/// The link that keeps `path` from being found, and where it points: the path itself, or a folder on the
/// way. `None` if no link is to blame.
pub fn dangling(path: &Path) -> Option<(PathBuf, PathBuf)> {
    // Without a `/` at its end, which would lead through the link.
    let path: PathBuf = path.components().collect();
    let ways: Vec<&Path> = path.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
    let lost = ways.into_iter().rev().find(|way| fs::metadata(way).is_err())?;
    let target = fs::read_link(lost).ok()?;
    Some((lost.to_owned(), target))
}

/// The diagnostic of a path that a link keeps from being found.
pub fn dangling_link(path: &Path) -> Option<FilesError> {
    let shown = |path: PathBuf| path.to_string_lossy().into_owned();
    let (path, target) = dangling(path)?;
    Some(FilesError::Dangling { path: shown(path), target: shown(target) })
}

/// Whether an entry of a folder is a file. A link that leads nowhere is a diagnostic: its rows would be
/// missing without a word.
pub fn is_file(path: &Path) -> Result<bool, FilesError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) => {
            Err(dangling_link(path)
                .unwrap_or_else(|| FilesError::io(&path.to_string_lossy(), error)))
        }
    }
}

/// Whether something is not there.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
