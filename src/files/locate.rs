//! Where the files are: paths, folders and globs become a list of files in a fixed order.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::FilesError;
use crate::limits::FILES_MAX;
use crate::links::{dangling_link, is_absent, is_file};
use crate::walk::{Pattern, is_hidden, walk};
use proofmill_base::suggest;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The path as it was given, or as it was found below what was given.
    pub shown: String,
    pub path: PathBuf,
}

impl Located {
    fn new(path: PathBuf) -> Self {
        Self { shown: path.to_string_lossy().into_owned(), path }
    }
}

/// Finds all files: those of the first path, then those of the next, each sorted by name.
pub fn locate(paths: &[String]) -> Result<Vec<Located>, FilesError> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(one(path)?);
    }
    let mut seen = HashMap::new();
    for file in &found {
        let real = file.path.canonicalize().map_err(|error| FilesError::io(&file.shown, error))?;
        if let Some(first) = seen.insert(real, &file.shown) {
            let (first, second) = (first.clone(), file.shown.clone());
            return Err(FilesError::Duplicate { first, second });
        }
    }
    if found.is_empty() { Err(FilesError::NoPaths) } else { Ok(found) }
}

fn one(text: &str) -> Result<Vec<Located>, FilesError> {
    let path = Path::new(text);
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(vec![Located::new(path.to_owned())]),
        Ok(metadata) if metadata.is_dir() => folder(text),
        Ok(_) => Err(FilesError::NotAFile { path: text.to_owned() }),
        Err(error) if !is_absent(&error) => Err(FilesError::io(text, error)),
        Err(_) if Pattern::is_one(text) => glob(text),
        Err(_) => Err(dangling_link(path).unwrap_or_else(|| missing(text))),
    }
}

/// The files directly in a folder.
fn folder(text: &str) -> Result<Vec<Located>, FilesError> {
    let failed = |error| FilesError::io(text, error);
    let mut files = Vec::new();
    for entry in fs::read_dir(text).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if !is_hidden(&entry.file_name()) && is_file(&path)? {
            files.push(Located::new(path));
        }
        if files.len() > FILES_MAX {
            return Err(FilesError::TooManyFiles { path: text.to_owned() });
        }
    }
    if files.is_empty() {
        return Err(FilesError::EmptyFolder { path: text.to_owned() });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn glob(text: &str) -> Result<Vec<Located>, FilesError> {
    let pattern = Pattern::parse(text)?;
    let mut files: Vec<_> = walk(&pattern)?.into_iter().map(Located::new).collect();
    if files.is_empty() {
        let (pattern, directory) = (text.to_owned(), working_directory());
        return Err(FilesError::NoMatch { pattern, directory });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn missing(text: &str) -> FilesError {
    let directory = working_directory();
    let help = match neighbour(Path::new(text)) {
        Some(name) => format!("did you mean `{name}`? The working directory is `{directory}`"),
        None => format!("paths are relative to the working directory `{directory}`"),
    };
    FilesError::Missing { path: text.to_owned(), help }
}

/// The entry with the nearest name beside a path, written like the path.
fn neighbour(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?.take(FILES_MAX);
    let mut names: Vec<_> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let nearest = suggest::nearest(name, names.iter().map(String::as_str))?;
    Some(path.with_file_name(nearest).to_string_lossy().into_owned())
}

fn working_directory() -> String {
    std::env::current_dir().map_or_else(|_| ".".to_owned(), |path| path.display().to_string())
}
