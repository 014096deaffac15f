//! The system calls behind a durable local folder, one method each, so that tests can watch and fail them.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use object_store::PutPayload;

/// What the flusher needs from a file system.
pub(crate) trait Disk: Debug + Send {
    /// Makes `dir` and its ancestors below the root, refusing any that is a symbolic link.
    /// Returns the directories from the root down to `dir`.
    fn ensure_dir(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Writes a new file; with `durable`, its bytes have reached the disk on return.
    fn write(&self, file: &Path, payload: &PutPayload, durable: bool) -> io::Result<()>;
    /// Gives `file` the name `to`, which must not exist.
    fn link(&self, file: &Path, to: &Path) -> io::Result<()>;
    /// Gives `file` the name `to`, replacing what has it.
    fn rename(&self, file: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn unlink(&self, file: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes everything in the file system of the root durable.
    fn sync_all(&self) -> io::Result<()>;
    /// True when [`Disk::sync_all`] covers these directories and reports failures.
    fn can_sync_all(&self, dirs: &[PathBuf]) -> bool;
}

/// The disk of this machine below one folder.
#[derive(Debug)]
pub(crate) struct RealDisk {
    root: PathBuf,
    /// Open since the start: the kernel reports to it every failed write since then.
    root_dir: File,
}

impl RealDisk {
    /// The disk below `root`, an existing folder without symbolic links in its path.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.to_owned(), root_dir: File::open(root)? })
    }
}

impl Disk for RealDisk {
    fn ensure_dir(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let below = dir.strip_prefix(&self.root).map_err(io::Error::other)?;
        let mut chain = vec![self.root.clone()];
        let mut at = self.root.clone();
        for name in below {
            at.push(name);
            match fs::symlink_metadata(&at) {
                Ok(meta) => refuse_symlink(&at, &meta)?,
                Err(error) if error.kind() == ErrorKind::NotFound => match fs::create_dir(&at) {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                    _ => refuse_symlink(&at, &fs::symlink_metadata(&at)?)?,
                },
                Err(error) => return Err(error),
            }
            chain.push(at.clone());
        }
        Ok(chain)
    }

    fn write(&self, file: &Path, payload: &PutPayload, durable: bool) -> io::Result<()> {
        // `create_new` also refuses a symbolic link of that name.
        let mut target = OpenOptions::new().write(true).create_new(true).open(file)?;
        payload.iter().try_for_each(|bytes| target.write_all(bytes))?;
        if durable { target.sync_all() } else { Ok(()) }
    }

    fn link(&self, file: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(file, to)
    }

    fn rename(&self, file: &Path, to: &Path) -> io::Result<()> {
        fs::rename(file, to)
    }

    fn unlink(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    #[cfg(target_os = "linux")]
    fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root_dir)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn sync_all(&self) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    #[cfg(target_os = "linux")]
    fn can_sync_all(&self, dirs: &[PathBuf]) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(root) = self.root_dir.metadata() else {
            return false;
        };
        let same_device =
            |dir: &PathBuf| fs::metadata(dir).is_ok_and(|meta| meta.dev() == root.dev());
        syncfs_reports_errors() && dirs.iter().all(same_device)
    }

    #[cfg(not(target_os = "linux"))]
    fn can_sync_all(&self, _dirs: &[PathBuf]) -> bool {
        false
    }
}

fn refuse_symlink(path: &Path, meta: &fs::Metadata) -> io::Result<()> {
    if meta.is_symlink() {
        let text = format!("`{}` is a symbolic link; a store follows none", path.display());
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Refuses when a component of `path` below `root` is a symbolic link. Absent components are fine.
pub(crate) fn refuse_symlinks(root: &Path, path: &Path) -> io::Result<()> {
    let below = path.strip_prefix(root).map_err(io::Error::other)?;
    let mut at = root.to_owned();
    for name in below {
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(meta) => refuse_symlink(&at, &meta)?,
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Before Linux 5.8, `syncfs` succeeded even when writing had failed.
#[cfg(target_os = "linux")]
fn syncfs_reports_errors() -> bool {
    static REPORTS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *REPORTS.get_or_init(|| {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 8)
    })
}
