//! What can go wrong with memories, beside what can go wrong with their store.

use proofmill_base::error::{Error, ErrorKind};
use proofmill_base::ids::MemoryName;
use proofmill_files::FilesError;
use proofmill_store::StoreError;

/// A failure of a memory, or an action that it does not take.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The store failed, or an entry is damaged; the message names it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry contradicts those before it.
    #[error("the memory `{memory}` is broken: entry {seq} {reason}")]
    Broken { memory: MemoryName, seq: u64, reason: String },
    /// An entry is missing between others.
    #[error("the memory `{memory}` is broken: entry {seq} is missing, later entries exist")]
    Gap { memory: MemoryName, seq: u64 },
    /// Other processes were faster every time.
    #[error("nothing was added to `{memory}`: other processes added {attempts} entries in between")]
    Contended { memory: MemoryName, attempts: u32 },
    /// The store has no such memory.
    #[error("there is no memory `{memory}`")]
    Unknown {
        memory: MemoryName,
        /// The memory that may be meant.
        near: Option<String>,
    },
    /// A text is not a sentence.
    #[error("this is not a sentence: {reason}")]
    Sentence { reason: String },
    /// A sentence whose negation the rules do not make.
    #[error("the negation of \"{fact}\" cannot be derived")]
    NoNegation { fact: String },
    /// Blocked reasoning without premises.
    #[error("reasoning without a premise cannot be blocked")]
    NoPremises,
    /// A fact that the memory does not hold.
    #[error("the memory does not hold \"{fact}\"")]
    UnknownFact {
        fact: String,
        /// The fact that may be meant.
        near: Option<String>,
    },
    /// A number that no entry has.
    #[error("there is no entry {entry}: the memory has {entries}")]
    NoEntry {
        entry: u64,
        /// How many entries there are.
        entries: usize,
    },
    /// An entry that does not count already.
    #[error("entry {entry} is already undone, by entry {by}")]
    UndoneBefore { entry: u64, by: u64 },
    /// A fact that conflicts with others, where that is refused.
    #[error("\"{fact}\" conflicts with the memory: {with}")]
    Conflict {
        fact: String,
        /// The others, with their entries.
        with: String,
    },
    /// An import file cannot be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A line of an import file is no lesson.
    #[error("{place}: {reason}")]
    Line { place: String, reason: String, help: String },
}

/// Result with the error of memories.
pub(crate) type Result<T, E = MemoryError> = std::result::Result<T, E>;

/// What helps when a memory is damaged.
const RESTORE: &str = "restore the folder of the memory below `memories` in the store from a backup, or \
     teach another memory what `proofmill teach history` still shows";

impl MemoryError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Broken { .. } | Self::Gap { .. } => RESTORE.to_owned(),
            Self::Contended { .. } => "try again when fewer processes teach it".to_owned(),
            Self::Unknown { near: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::Unknown { .. } => {
                "`proofmill teach memories` lists them; `proofmill teach add` creates one"
                    .to_owned()
            }
            Self::Sentence { .. } => "give one sentence, in quotes".to_owned(),
            Self::NoNegation { .. } => "give it with `--as \"…\"`".to_owned(),
            Self::NoPremises => {
                "name each premise with `--premise`, or the proof with `--proof`".to_owned()
            }
            Self::UnknownFact { near: Some(near), .. } => format!("did you mean \"{near}\"?"),
            Self::UnknownFact { .. } => "add it first, with `proofmill teach add`".to_owned(),
            Self::NoEntry { .. } => "`proofmill teach history` lists them".to_owned(),
            Self::UndoneBefore { by, .. } => format!("undo entry {by} to restore it"),
            Self::Conflict { .. } => {
                "retire the other with `proofmill teach negate` or `undo`, or leave out \
                 `--refuse-conflicts`"
                    .to_owned()
            }
            Self::Line { help, .. } => help.clone(),
            Self::Store(_) | Self::Files(_) => String::new(),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(_) | Self::Broken { .. } | Self::Gap { .. } | Self::Contended { .. } => {
                ErrorKind::Store
            }
            Self::Unknown { .. }
            | Self::Sentence { .. }
            | Self::NoNegation { .. }
            | Self::NoPremises
            | Self::UnknownFact { .. }
            | Self::NoEntry { .. }
            | Self::UndoneBefore { .. }
            | Self::Conflict { .. }
            | Self::Files(_)
            | Self::Line { .. } => ErrorKind::Usage,
        }
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Store(
                error @ (StoreError::Missing { .. } | StoreError::Damaged { .. }),
            ) => Self::from(error).with_hint(RESTORE),
            MemoryError::Store(error) => error.into(),
            MemoryError::Files(error) => error.into(),
            error => Self::new(error.kind(), error.to_string()).with_hint(error.hint()),
        }
    }
}
