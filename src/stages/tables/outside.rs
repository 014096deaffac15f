//! Files outside the store that a stage writes: whole or not at all, as readable as any new file, and
//! never through a link.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use crate::stages::error::StageError;

/// A file that takes its place when it is whole.
pub struct Replacement {
    partial: NamedTempFile,
    folder: PathBuf,
    to: PathBuf,
}

impl Replacement {
    /// Begins a file beside `to`, whose folder is made. It has the mode of the file that it replaces, or
    /// that of any new file.
    pub fn of(to: &Path) -> Result<Self, StageError> {
        let failed = |source| failed(to, source);
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let mode = replaced(to).map_err(failed)?;
        fs::create_dir_all(&folder).map_err(failed)?;
        // The process's mask takes away what it takes away from any new file.
        let all = Permissions::from_mode(0o666);
        let partial = tempfile::Builder::new().permissions(all).tempfile_in(&folder);
        let partial = partial.map_err(failed)?;
        if let Some(mode) = mode {
            let mode = Permissions::from_mode(mode);
            partial.as_file().set_permissions(mode).map_err(failed)?;
        }
        Ok(Self { partial, folder, to: to.to_owned() })
    }

    /// The file, to be written.
    pub fn file(&mut self) -> &mut File {
        self.partial.as_file_mut()
    }

    /// The file, to be read from its start.
    pub fn reopen(&self) -> Result<File, StageError> {
        self.partial.reopen().map_err(|source| failed(&self.to, source))
    }

    /// Moves it to its place when all of it has reached the disk.
    pub fn commit(self) -> Result<(), StageError> {
        let Self { partial, folder, to } = self;
        let moved = partial.as_file().sync_all().and_then(|()| {
            // It may have become a link meanwhile; `rename` would replace that, too.
            replaced(&to)?;
            partial.persist(&to).map_err(|error| error.error)?;
            match File::open(&folder)?.sync_all() {
                // Some file systems cannot sync folders.
                Err(error) if !is_unsupported(&error) => Err(error),
                _ => Ok(()),
            }
        });
        moved.map_err(|source| failed(&to, source))
    }
}

/// Opens a file to read it; an error for a link, and for anything else but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// As [`open`], with these options. Nobody is waited for, as whoever opens a pipe does.
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = options.custom_flags(flags.cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(ErrorKind::InvalidInput.into()),
    }
}

fn failed(path: &Path, source: io::Error) -> StageError {
    StageError::Write { path: path.display().to_string(), source }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput)
}

/// The mode of the file that is replaced; nothing if there is none. What is no file is not replaced.
fn replaced(path: &Path) -> io::Result<Option<u32>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let what = if found.is_file() {
        return Ok(Some(found.permissions().mode() & 0o777));
    } else if found.is_symlink() {
        "a symbolic link, and nothing is written through one; name the file that it leads to"
    } else if found.is_dir() {
        "a folder; name a file in it"
    } else {
        "a device, a pipe or a socket; name a file"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {what}")))
}
