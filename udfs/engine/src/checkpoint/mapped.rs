//! Files mapped into memory, read-only.

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// The bytes of a file.
///
/// They are checked against the header once, when the file is opened. If somebody cuts the file short
/// afterwards, reading what is gone ends the process with a bus error; if somebody writes to it, the
/// weights change, which [`super::Watch`] sees. Files of weights are written once and then left alone,
/// and replacing one by a rename, as download tools do, leaves the mapped bytes as they were.
#[derive(Debug)]
pub struct Mapped(Mmap);

impl Mapped {
    /// Maps an open file.
    pub fn new(file: &File) -> io::Result<Self> {
        #[expect(unsafe_code, reason = "a map is the only way to share weights between processes")]
        // SAFETY: the map is private to this type and read-only, so no reference of ours can write
        // to it. What other processes may do to the file is told in the description of the type.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self(map))
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
