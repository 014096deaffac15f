//! What can go wrong while an index is built, opened or searched.

use std::io;
use std::path::PathBuf;

use proofmill_base::error::{Error, ErrorKind};

/// Most entries of one index: tantivy's limit for a merged segment.
pub const ENTRIES_MAX: u32 = (1 << 31) - 1;

/// Largest text of one entry. An entry is a fact or a passage, not a book.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// A failure of the module.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A file or folder could not be read or written.
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// tantivy refused or failed.
    #[error("tantivy cannot {action} in `{}`", dir.display())]
    Tantivy {
        action: &'static str,
        /// The folder of the index.
        dir: PathBuf,
        source: tantivy::TantivyError,
    },
    /// The folder for a new index already holds something.
    #[error("`{}` is not empty; a new index needs a folder of its own", .0.display())]
    FolderNotEmpty(PathBuf),
    /// The folder holds no finished index.
    #[error("`{}` holds no finished BM25 index: `{file}` is missing", dir.display())]
    NotAnIndex { dir: PathBuf, file: &'static str },
    /// The index was written by another version of the format.
    #[error("the index in `{}` has format {found}; expected {expected}", dir.display())]
    Format { dir: PathBuf, found: u64, expected: u32 },
    /// The files of the index contradict each other.
    #[error("the index in `{}` is damaged: {what}", dir.display())]
    Damaged { dir: PathBuf, what: String },
    /// A parameter is outside its range.
    #[error("`{name}` is {value}; expected {expected}")]
    Parameter { name: &'static str, value: String, expected: &'static str },
    /// A single text is larger than the limit.
    #[error("entry {ordinal} has {bytes} bytes of text; expected at most {}", ENTRY_BYTES_MAX)]
    EntryTooLong {
        ordinal: u32,
        /// Its size.
        bytes: usize,
    },
    /// One index cannot hold more entries.
    #[error("an index holds at most {} entries", ENTRIES_MAX)]
    TooManyEntries,
}

impl SearchError {
    /// Turns the cause of a failed file operation into an error; for `map_err`.
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Turns tantivy's failure into an error; for `map_err`.
    pub(super) fn tantivy<E: Into<tantivy::TantivyError>>(
        action: &'static str,
        dir: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let dir = dir.into();
        move |source| Self::Tantivy { action, dir, source: source.into() }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. }
            | Self::Tantivy { .. }
            | Self::FolderNotEmpty(_)
            | Self::NotAnIndex { .. }
            | Self::Format { .. }
            | Self::Damaged { .. } => ErrorKind::Store,
            Self::Parameter { .. } | Self::EntryTooLong { .. } | Self::TooManyEntries => {
                ErrorKind::Stage
            }
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } | Self::Tantivy { .. } => {
                "check that the folder exists, is writable and that the disk is not full"
            }
            Self::FolderNotEmpty(_) => "give the index a new or empty folder",
            Self::NotAnIndex { .. } | Self::Format { .. } | Self::Damaged { .. } => {
                "build the index again from its table"
            }
            Self::Parameter { .. } => "correct the settings of the index stage",
            Self::EntryTooLong { .. } => "split the text into passages before indexing it",
            Self::TooManyEntries => "split the table over several indexes",
        }
    }
}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        Self::new(error.kind(), error.to_string()).with_hint(error.hint()).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_the_stores_and_settings_are_the_stages() {
        let damaged = SearchError::Damaged { dir: "x".into(), what: "no segment".to_owned() };
        let error = Error::from(damaged);
        assert_eq!(error.kind, ErrorKind::Store);
        assert_eq!(error.message, "the index in `x` is damaged: no segment");
        assert_eq!(error.hint.as_deref(), Some("build the index again from its table"));

        let error = Error::from(SearchError::TooManyEntries);
        assert_eq!(error.kind, ErrorKind::Stage);
    }
}
