//! The files that decide what a program writes: named by the user, known by their digests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proofmill_base::digest::{Digest, Hasher};
use proofmill_store::SourceRole;

use crate::stages::settings_file::SourceFile;

/// Files that one stage may name, those in folders included.
const FILES_MAX: usize = 10_000;
/// Folders that interpreters write while a program runs.
const WRITTEN_BY_RUNS: [&str; 1] = ["__pycache__"];

/// The files that decide what a program writes, as they were when the pipeline was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    declared: Vec<String>,
    /// Each with its digest and its size in bytes.
    files: Vec<(PathBuf, Digest, u64)>,
}

/// Why the files cannot be digested.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    #[error("there is no file or folder `{path}`")]
    Missing { at: usize, path: String },
    #[error("`{path}` cannot be read: {source}")]
    Unreadable { at: usize, path: String, source: io::Error },
    #[error("`{path}` is a device, a pipe or a socket, not a file or a folder")]
    NoFile { at: usize, path: String },
    #[error("`{path}` has more than {FILES_MAX} files")]
    TooMany { at: usize, path: String },
}

impl CodeError {
    /// The position of the path in the list that was given.
    pub fn at(&self) -> usize {
        match self {
            Self::Missing { at, .. }
            | Self::Unreadable { at, .. }
            | Self::NoFile { at, .. }
            | Self::TooMany { at, .. } => *at,
        }
    }
}

impl Code {
    /// Digests files, and all files below folders but hidden ones and those that interpreters cache. Links are followed. Paths are
    /// relative to the working directory.
    pub fn read(declared: Vec<String>) -> Result<Self, CodeError> {
        let mut files = Vec::new();
        for (at, path) in declared.iter().enumerate() {
            let failed = |found: &Path, source: io::Error| match source.kind() {
                io::ErrorKind::NotFound => CodeError::Missing { at, path: shown(found) },
                _ => CodeError::Unreadable { at, path: shown(found), source },
            };
            // Each with the folders around it, by their real names: a link back to one of these is not entered.
            let mut open = vec![(PathBuf::from(path), Vec::new())];
            while let Some((next, around)) = open.pop() {
                let meta = fs::metadata(&next).map_err(|error| failed(&next, error))?;
                if meta.is_dir() {
                    let real = next.canonicalize().map_err(|error| failed(&next, error))?;
                    if !around.contains(&real) {
                        let below = entries(&next).map_err(|error| failed(&next, error))?;
                        let around = [around.as_slice(), &[real]].concat();
                        open.extend(below.into_iter().map(|path| (path, around.clone())));
                    }
                } else if meta.is_file() {
                    let digest = digest(&next).map_err(|error| failed(&next, error))?;
                    files.push((next, digest, meta.len()));
                } else {
                    return Err(CodeError::NoFile { at, path: shown(&next) });
                }
                if files.len() + open.len() > FILES_MAX {
                    return Err(CodeError::TooMany { at, path: path.clone() });
                }
            }
        }
        files.sort();
        files.dedup();
        Ok(Self { declared, files })
    }

    /// Each file and its digest, ordered by path.
    pub fn files(&self) -> impl Iterator<Item = (String, Digest)> {
        self.files.iter().map(|(path, digest, _)| (shown(path), *digest))
    }

    /// The same as files that a stage is made of.
    pub fn source_files(&self) -> impl Iterator<Item = SourceFile> {
        self.files.iter().map(|(path, sha256, bytes)| SourceFile {
            path: shown(path),
            role: SourceRole::Code,
            sha256: *sha256,
            bytes: *bytes,
        })
    }

    /// The first file that is another one now, or is new, or gone; `None` if all are as they were. Reads them.
    pub fn changed(&self) -> Option<String> {
        let now = match Self::read(self.declared.clone()) {
            Ok(now) => now.files,
            Err(
                CodeError::Missing { path, .. }
                | CodeError::Unreadable { path, .. }
                | CodeError::NoFile { path, .. }
                | CodeError::TooMany { path, .. },
            ) => return Some(path),
        };
        let differs = |(file, others): (&(PathBuf, Digest, u64), &Vec<_>)| {
            (!others.contains(file)).then(|| shown(&file.0))
        };
        let gone = self.files.iter().map(|file| (file, &now));
        let new = now.iter().map(|file| (file, &self.files));
        gone.chain(new).find_map(differs)
    }
}

/// What a folder holds.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut below = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if !is_hidden && !WRITTEN_BY_RUNS.iter().any(|it| name == *it) {
            below.push(entry.path());
        }
    }
    Ok(below)
}

fn digest(path: &Path) -> io::Result<Digest> {
    let (mut file, mut hasher) = (fs::File::open(path)?, Hasher::default());
    let mut buffer = vec![0; 256 << 10];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(hasher.finish()),
            n => hasher.update(&buffer[..n]),
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_folder_counts_and_a_circle_ends() {
        let made = tempfile::tempdir().unwrap();
        let root = made.path();
        for folder in ["lib", "shared/deep"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("shared/deep/rules.py"), "a").unwrap();
        std::os::unix::fs::symlink(root.join("shared"), root.join("lib/linked")).unwrap();
        std::os::unix::fs::symlink(root.join("lib"), root.join("shared/back")).unwrap();
        let code = Code::read(vec![shown(&root.join("lib"))]).unwrap();
        let found: Vec<String> = code.files().map(|(path, _)| path).collect();
        assert_eq!(found, [shown(&root.join("lib/linked/deep/rules.py"))]);
        fs::write(root.join("shared/deep/rules.py"), "b").unwrap();
        assert_eq!(code.changed(), Some(found[0].clone()));
    }

    #[test]
    fn what_is_added_changed_or_removed_is_seen() {
        let made = tempfile::tempdir().unwrap();
        let root = made.path();
        fs::create_dir_all(root.join("lib/__pycache__")).unwrap();
        fs::write(root.join("lib/a.py"), "a").unwrap();
        fs::write(root.join("lib/.hidden"), "h").unwrap();
        std::os::unix::fs::symlink(root, root.join("lib/back")).unwrap();
        let code = Code::read(vec![shown(&root.join("lib"))]).unwrap();
        assert_eq!(code.files().count(), 1);
        fs::write(root.join("lib/__pycache__/a.pyc"), "compiled").unwrap();
        assert_eq!(code.changed(), None);
        fs::write(root.join("lib/b.py"), "b").unwrap();
        assert_eq!(code.changed(), Some(shown(&root.join("lib/b.py"))));
        fs::remove_file(root.join("lib/b.py")).unwrap();
        fs::write(root.join("lib/a.py"), "other").unwrap();
        assert_eq!(code.changed(), Some(shown(&root.join("lib/a.py"))));
        fs::remove_file(root.join("lib/a.py")).unwrap();
        assert_eq!(code.changed(), Some(shown(&root.join("lib/a.py"))));
        let error = Code::read(vec![shown(root), "not/there".to_owned()]).unwrap_err();
        assert_eq!(
            (error.at(), error.to_string().as_str()),
            (1, "there is no file or folder `not/there`")
        );
    }
}
