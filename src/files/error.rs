//! What can go wrong with the files of a `read`: one variant per fact, with the setting to blame.

use std::io;

use crate::limits::{
    COLUMNS_MAX, DOCUMENT_BYTES_MAX, EXPANSION_MAX, FILES_MAX, ZSTD_WINDOW_LOG_MAX,
};
use proofmill_base::error::{Error, ErrorKind};

/// Why bytes are not read on, inside an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Decompression makes too much of too little.
    #[error("more than {EXPANSION_MAX} times larger than the file")]
    Expansion,
    /// The file starts with the byte order mark of UTF-16.
    #[error("UTF-16")]
    Utf16,
}

/// Why files cannot be read. Mistakes of single records are error rows instead.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A path names nothing.
    #[error("there is no file `{path}`")]
    Missing {
        path: String,
        /// The nearest name beside it, and the working directory.
        help: String,
    },
    /// A path is a link, or leads through one, to what is not there.
    #[error("`{path}` is a link to `{target}`, which is not there")]
    Dangling { path: String, target: String },
    /// A pattern is no glob.
    #[error("`{pattern}` is not a glob: {reason}")]
    Pattern { pattern: String, reason: String },
    /// A pattern matches no file.
    #[error("no file matches `{pattern}`")]
    NoMatch { pattern: String, directory: String },
    /// A folder has no files.
    #[error("the folder `{path}` has no files")]
    EmptyFolder { path: String },
    /// A list of paths is empty.
    #[error("the list of paths is empty")]
    NoPaths,
    /// A path names something that is neither a file nor a folder.
    #[error("`{path}` is not a regular file")]
    NotAFile { path: String },
    /// A pattern or folder names too many files.
    #[error("`{path}` leads to more than {FILES_MAX} files and folders")]
    TooManyFiles { path: String },
    /// Two paths lead to one file.
    #[error("`{first}` and `{second}` are the same file")]
    Duplicate {
        first: String,
        /// The second path.
        second: String,
    },
    /// Two files hold the same bytes, so that their rows could not be distinguished.
    #[error("`{first}` and `{second}` have the same content")]
    SameContent {
        first: String,
        /// The second file.
        second: String,
    },
    /// The name does not determine the format.
    #[error("the name of `{path}` does not tell its format")]
    UnknownFormat { path: String },
    /// Files are of different formats.
    #[error("`{first}` is {first_format}, but `{second}` is {second_format}")]
    MixedFormats {
        first: String,
        first_format: &'static str,
        second: String,
        second_format: &'static str,
    },
    /// The name and the content of a file disagree.
    #[error("`{path}` {fact}")]
    Content { path: String, fact: &'static str, field: &'static str, help: String },
    /// A setting that the format has no use for.
    #[error("`{field}` does not apply to {format}")]
    NotForFormat { field: &'static str, format: &'static str },
    /// A value that a setting does not take.
    #[error("`{value}` is not {expected}")]
    Setting { field: String, value: String, expected: &'static str, help: Option<String> },
    /// A file cannot be opened or read.
    #[error("failed to read `{path}`: {source}")]
    Io { path: String, source: io::Error },
    /// A file is damaged as a whole.
    #[error("`{path}` is damaged: {reason}")]
    Damaged { path: String, reason: String },
    /// A compressed file grows beyond measure.
    #[error("`{path}` decompresses to {}", Refusal::Expansion)]
    Expansion { path: String },
    /// A JSON document does not parse.
    #[error("`{path}` is not a JSON document: line {line}, column {column}: {message}")]
    Document {
        path: String,
        /// Line, from 1.
        line: u64,
        /// Column in characters, from 1.
        column: u64,
        message: String,
    },
    /// A JSON document is too long to be read at once.
    #[error("the document `{path}` is longer than {} GiB", DOCUMENT_BYTES_MAX >> 30)]
    DocumentSize { path: String },
    /// A JSON document has no list of records where it should be.
    #[error("`{path}` {message}")]
    Records { path: String, message: String, help: Option<String> },
    /// The first line of a file does not name columns.
    #[error("the header of `{path}` {reason}")]
    Header { path: String, reason: String },
    /// Two files do not have the same columns.
    #[error("`{second}` does not have the columns of `{first}`: {difference}")]
    Differs { first: String, second: String, difference: String },
    /// A column's field is in none of the records looked at.
    #[error("no record has the field `{path}`")]
    Column { column: String, path: String, help: Option<String> },
    /// A column has a name it may not have.
    #[error("a column cannot be called `{column}`: {reason}")]
    ColumnName {
        column: String,
        /// Why not.
        reason: &'static str,
        /// Whether the name stands in the settings, or else in the data.
        set: bool,
    },
    /// Two columns, or two fields of a struct, have one name.
    #[error("`{path}` has two columns or fields called `{column}`")]
    Repeated {
        path: String,
        column: String,
        /// Whether the settings choose columns.
        set: bool,
    },
    /// Values of a column cannot be turned into the declared type.
    #[error("column `{column}` holds {found}, which cannot be read as {declared}")]
    ColumnType { column: String, found: String, declared: &'static str },
    /// The records have too many fields.
    #[error("the records have more than {COLUMNS_MAX} fields")]
    TooManyColumns,
    /// A file is not what it was when the reading began.
    #[error("`{path}` changed while it was read")]
    Changed { path: String },
}

impl FilesError {
    /// The failure to read the file at `path`.
    pub fn io(path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        let refusal = source.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>());
        match (refusal, source.kind()) {
            (Some(Refusal::Expansion), _) => Self::Expansion { path },
            (Some(Refusal::Utf16), _) => Self::Content {
                path,
                fact: "is UTF-16 text",
                field: "encoding",
                help: "set `encoding: utf-16le` or `utf-16be`".to_owned(),
            },
            (None, io::ErrorKind::InvalidData) => Self::Damaged { path, reason: reason(&source) },
            (None, _) => Self::Io { path, source },
        }
    }

    /// What happened: a lower-case fragment that reads after "error:".
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        let text = match self {
            Self::Missing { help, .. } | Self::Content { help, .. } => help.clone(),
            Self::Setting { help, .. } | Self::Records { help, .. } | Self::Column { help, .. } => {
                return help.clone();
            }
            Self::NoMatch { directory, .. } => {
                format!("paths are relative to the working directory `{directory}`")
            }
            Self::EmptyFolder { .. } => {
                "only files directly in a folder are read; use a glob such as `folder/**/*.jsonl` \
                 for those below"
                    .to_owned()
            }
            Self::SameContent { .. } => {
                "the rows of both would have the same `row_id`; read one of them".to_owned()
            }
            Self::UnknownFormat { .. } => {
                "set `format` to `jsonl`, `json`, `csv`, `tsv`, `parquet` or `lines`".to_owned()
            }
            Self::MixedFormats { .. } => {
                "set `format`, or name the files with a glob such as `folder/*.jsonl`".to_owned()
            }
            Self::Dangling { .. } => "fix the link or remove it".to_owned(),
            Self::Repeated { set: true, .. } => {
                "SQL cannot tell them apart; leave them out, or write the file with other names".to_owned()
            }
            Self::Repeated { set: false, .. } => {
                "SQL cannot tell them apart; choose others in `columns`, or write the file with other names"
                    .to_owned()
            }
            Self::Header { .. } => "set `header: false` if the file has none".to_owned(),
            Self::ColumnName { set: false, .. } => "give it another name in `columns`".to_owned(),
            Self::ColumnType { .. } => "leave out `type` and convert it in SQL".to_owned(),
            Self::TooManyColumns => "choose some in `columns`".to_owned(),
            Self::Changed { .. } => "run again once the file is at rest".to_owned(),
            Self::NoPaths
            | Self::Pattern { .. }
            | Self::NotAFile { .. }
            | Self::TooManyFiles { .. }
            | Self::Duplicate { .. }
            | Self::NotForFormat { .. }
            | Self::Io { .. }
            | Self::Damaged { .. }
            | Self::Expansion { .. }
            | Self::Document { .. }
            | Self::DocumentSize { .. }
            | Self::Differs { .. }
            | Self::ColumnName { set: true, .. } => return None,
        };
        Some(text)
    }

    /// The setting of `read` to blame, as a path of keys.
    pub fn field(&self) -> String {
        match self {
            Self::UnknownFormat { .. } | Self::MixedFormats { .. } => "format".to_owned(),
            Self::Content { field, .. } | Self::NotForFormat { field, .. } => (*field).to_owned(),
            Self::Setting { field, .. } => field.clone(),
            Self::Records { .. } => "records".to_owned(),
            Self::Header { .. } => "header".to_owned(),
            Self::Column { column, .. }
            | Self::ColumnType { column, .. }
            | Self::ColumnName { column, set: true, .. } => format!("columns.{column}"),
            Self::ColumnName { set: false, .. } | Self::Repeated { .. } | Self::TooManyColumns => {
                "columns".to_owned()
            }
            Self::Missing { .. }
            | Self::Dangling { .. }
            | Self::Pattern { .. }
            | Self::NoMatch { .. }
            | Self::EmptyFolder { .. }
            | Self::NoPaths
            | Self::NotAFile { .. }
            | Self::TooManyFiles { .. }
            | Self::Duplicate { .. }
            | Self::SameContent { .. }
            | Self::Io { .. }
            | Self::Damaged { .. }
            | Self::Expansion { .. }
            | Self::Document { .. }
            | Self::DocumentSize { .. }
            | Self::Differs { .. }
            | Self::Changed { .. } => "path".to_owned(),
        }
    }
}

impl From<FilesError> for Error {
    fn from(error: FilesError) -> Self {
        let public = Self::new(ErrorKind::Stage, error.message());
        let public = match error.help() {
            Some(help) => public.with_hint(help),
            None => public,
        };
        public.with_source(error)
    }
}

/// The words of a decompressor, with what they mean where they do not say it.
fn reason(source: &io::Error) -> String {
    let text = source.to_string();
    if text.contains("requires too much memory") {
        return format!(
            "its zstd window is larger than {} MiB; compress it again without `--long`",
            (1_u64 << ZSTD_WINDOW_LOG_MAX) >> 20
        );
    }
    text
}
