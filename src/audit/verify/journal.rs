//! What a verification has compared already, in a file outside the store, so that one that was interrupted can continue.
//!
//! A line for each object or table that is as it was recorded, written as soon as that is known. What it says is as old as
//! the file: it is for one verification that takes long, and goes when that ends.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_store::Format;

/// The last part of a line of a table.
const ROWS: &str = "rows";

/// The file of an interrupted verification.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    /// Lines of earlier times.
    done: HashSet<String>,
}

impl Journal {
    /// Opens the file for the store of this format, or makes it.
    ///
    /// # Errors
    ///
    /// If it cannot be read or written, or is another file.
    pub fn open(path: &Path, format: &Format) -> Result<Self> {
        let usage = |message: String| {
            Error::new(ErrorKind::Usage, message).with_hint(
                "name the file of an interrupted `audit verify` of this store, or a new one",
            )
        };
        let shown = path.display();
        let mut text = Vec::new();
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let opened = opened.and_then(|mut file| file.read_to_end(&mut text).map(|_| file));
        let mut file = opened.map_err(|error| usage(format!("`{shown}`: {error}")))?;
        let head = format!("proofmill verify 1 {}\n", format.store);
        let text = String::from_utf8_lossy(&text);
        let lines = match text.strip_prefix(&head) {
            Some(lines) => lines,
            None if text.is_empty() => "",
            None => return Err(usage(format!("`{shown}` is not of a verification of this store"))),
        };
        // A line that was cut off by the interruption says nothing, and is ended.
        let whole = lines.rfind('\n').map_or("", |at| &lines[..at]);
        let begin = match (text.is_empty(), lines.is_empty() || lines.ends_with('\n')) {
            (true, _) => head.as_str(),
            (false, true) => "",
            (false, false) => "\n",
        };
        file.write_all(begin.as_bytes()).map_err(|error| usage(format!("`{shown}`: {error}")))?;
        let done = whole.lines().map(str::to_owned).collect();
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), done })
    }

    /// How many objects and tables were compared before.
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Whether the object under this key had this digest.
    pub(super) fn has(&self, key: &str, sha256: Digest) -> bool {
        self.done.contains(&line(key, sha256))
    }

    /// Whether the rows of the table whose record has this digest were as it says.
    pub(super) fn has_rows(&self, record: Digest) -> bool {
        self.has(ROWS, record)
    }

    /// Notes objects with their digests. If the file cannot be written, the next verification compares them again.
    pub(super) fn add<'a>(&self, objects: impl IntoIterator<Item = (&'a str, Digest)>) {
        let mut lines = String::new();
        for (key, sha256) in objects {
            lines += &line(key, sha256);
            lines.push('\n');
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = file.write_all(lines.as_bytes());
    }

    pub(super) fn add_rows(&self, record: Digest) {
        self.add([(ROWS, record)]);
    }

    /// Removes the file of a verification that has ended.
    ///
    /// # Errors
    ///
    /// If it cannot be removed.
    pub fn end(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|error| {
            let message = format!("`{}` cannot be removed: {error}", self.path.display());
            Error::new(ErrorKind::Usage, message)
        })
    }
}

fn line(key: &str, sha256: Digest) -> String {
    format!("{sha256} {key}")
}
