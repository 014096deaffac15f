//! Compiled kernels kept on disk. Any number of processes may use the folder at once, and it may be
//! deleted at any time.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::checkpoint::{Digest, seal, unseal};

/// A folder of compiled kernels.
pub(super) struct Cubins<'a> {
    folder: &'a Path,
}

impl<'a> Cubins<'a> {
    /// Those in `folder`, which is made when the first is kept.
    pub(super) fn new(folder: &'a Path) -> Self {
        Self { folder }
    }

    /// What was kept under `key`; nothing if it is damaged.
    pub(super) fn read(&self, key: Digest) -> Option<Vec<u8>> {
        // The driver reads a cubin without being told how long it is, so it must be whole.
        Some(unseal(&fs::read(self.path(key)).ok()?)?.to_vec())
    }

    /// Keeps `cubin` under `key`: written under another name and renamed, so that no reader sees
    /// half of it.
    pub(super) fn keep(&self, key: Digest, cubin: &[u8]) -> io::Result<()> {
        fs::create_dir_all(self.folder)?;
        let path = self.path(key);
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        // Where the draft exists, another thread is about to keep the same.
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&draft) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            file => file?,
        };
        let written = file.write_all(&seal(cubin)).and_then(|()| fs::rename(&draft, &path));
        if written.is_err() {
            fs::remove_file(&draft)?;
        }
        written
    }

    fn path(&self, key: Digest) -> PathBuf {
        self.folder.join(format!("{key}.cubin"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("not/there/yet");
        let (cubins, key) = (Cubins::new(&inside), Digest::of(b"key"));
        assert_eq!(cubins.read(key), None);
        cubins.keep(key, b"one\ntwo").unwrap();
        assert_eq!(cubins.read(key).as_deref(), Some(&b"one\ntwo"[..]));
        cubins.keep(key, b"other").unwrap();
        assert_eq!(cubins.read(key).as_deref(), Some(&b"other"[..]));
        assert_eq!(cubins.read(Digest::of(b"another key")), None);
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 1, "no drafts are left");
    }

    #[test]
    fn damaged_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (cubins, key) = (Cubins::new(folder.path()), Digest::of(b"key"));
        cubins.keep(key, b"a long enough cubin").unwrap();
        let path = cubins.path(key);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(cubins.read(key), None);
        let mut changed = whole.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(&path, &changed).unwrap();
        assert_eq!(cubins.read(key), None);
        fs::write(&path, b"").unwrap();
        assert_eq!(cubins.read(key), None);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(Cubins::new(&file).keep(Digest::of(b"key"), b"cubin").is_err());
    }
}
