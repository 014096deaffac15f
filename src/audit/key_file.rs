//! Private keys in files: written once, readable by their owner only, never part of a message.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use proofmill_base::error::{Error, ErrorKind, Result};

use crate::note::Signer;

/// The longest file that may be one of a key, in bytes.
const KEY_BYTES_MAX: u64 = 4096;
const NEW: &str = "`proofmill audit key new --out FILE` makes a key";

/// Writes a key to a new file.
///
/// # Errors
///
/// If there is a file already, or it cannot be written.
pub fn write(path: &Path, signer: &Signer) -> Result<()> {
    let shown = path.display();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        writeln!(file, "{}", signer.secret())?;
        file.sync_all()
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Error::new(ErrorKind::Usage, format!("`{shown}` exists already"))
                .with_hint("a key is never overwritten: name another file")
        }
        _ => Error::new(ErrorKind::Usage, format!("`{shown}` cannot be written: {error}")),
    })
}

/// Reads the key in a file.
///
/// # Errors
///
/// If it cannot be read, or is none.
pub fn read(path: &Path) -> Result<Signer> {
    let shown = path.display();
    let usage = |message: String| Error::new(ErrorKind::Usage, message).with_hint(NEW);
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(KEY_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| usage(format!("the key `{shown}` cannot be read: {error}")))?;
    text.parse().map_err(|error| usage(format!("`{shown}` is not a private key: {error}")))
}
