//! Files outside the store that a stage writes: whole or not at all, as readable as any new file, and
//! never through a link.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use crate::stages::error::StageError;

/// How the names of files begin that are not whole.
const PARTIAL: &str = ".proofmill-";
/// One that was not written to for so long, and that no process holds, was left behind by a process
/// that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

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
        let partial =
            tempfile::Builder::new().prefix(PARTIAL).permissions(all).tempfile_in(&folder);
        let partial = partial.map_err(failed)?;
        // Where there are no locks, its age protects it.
        let _ = partial.as_file().try_lock();
        sweep(&folder, partial.as_file());
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

/// Removes what killed processes left in `folder`, as of the time of the file `ours` there. What cannot be looked at or removed
/// stays: it is harmless.
fn sweep(folder: &Path, ours: &File) {
    let Ok(now) = ours.metadata().and_then(|meta| meta.modified()) else { return };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_name().to_string_lossy().starts_with(PARTIAL)) {
        let age = |meta: fs::Metadata| now.duration_since(meta.modified().ok()?).ok();
        let meta = entry.metadata().ok().filter(fs::Metadata::is_file);
        let is_old = meta.and_then(age).is_some_and(|age| age >= LEFT_BEHIND);
        if is_old && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Opens a file to read it; an error for a link, and for anything else but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// As [`open`], with these options. It never blocks, as opening a pipe otherwise would.
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
        "a symbolic link, which is not followed; name the file that it points to"
    } else if found.is_dir() {
        "a folder; name a file in it"
    } else {
        "a device, a pipe or a socket; name a file"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_left_goes_and_what_others_write_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, age: Duration| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(file.metadata().unwrap().modified().unwrap() - age).unwrap();
            file
        };
        drop(file(".proofmill-left", 2 * LEFT_BEHIND));
        drop(file(".proofmill-young", LEFT_BEHIND / 2));
        drop(file("mine", 2 * LEFT_BEHIND));
        let held = file(".proofmill-held", 2 * LEFT_BEHIND);
        held.try_lock().unwrap();
        let names = || {
            let entries = fs::read_dir(folder.path()).unwrap();
            let mut all: Vec<String> = entries
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            all.sort();
            all
        };
        Replacement::of(&folder.path().join("out.csv")).unwrap().commit().unwrap();
        assert_eq!(names(), [".proofmill-held", ".proofmill-young", "mine", "out.csv"]);
        drop(held);
        Replacement::of(&folder.path().join("out.csv")).unwrap().commit().unwrap();
        assert_eq!(names(), [".proofmill-young", "mine", "out.csv"]);
    }
}
