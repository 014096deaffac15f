//! What can go wrong with the ledger, beside what can go wrong with its store.

use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind};
use proofmill_store::{OpenLogError, StoreError};

/// A failure of the ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The store failed, or an object is missing or damaged; the message names it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An answer that must not be replayed.
    #[error("the answer to request {request} is not kept: {reason}")]
    Refused { request: Digest, reason: String },
    /// An entry of the log contradicts those before it.
    #[error("the log of the ledger is broken: entry {seq} {reason}")]
    Broken { seq: u64, reason: String },
    /// An entry is missing between others.
    #[error("the log of the ledger is broken: entry {seq} is missing, later entries exist")]
    Gap { seq: u64 },
    /// Verified bytes are not what a segment consists of.
    #[error("`{key}` is not a readable segment of the ledger: {reason}")]
    Segment { key: String, reason: String },
    /// Other processes were faster every time.
    #[error("the ledger could not append: other processes appended {attempts} times in between")]
    Contended { attempts: u32 },
}

/// What helps when a part of the ledger is lost.
const RESTORE: &str = "restore the folder `ledger` of the store from a backup; without one, move the \
     folder away as a whole, and every request is sent again";

/// Result with the ledger's error.
pub(crate) type Result<T, E = LedgerError> = std::result::Result<T, E>;

impl LedgerError {
    /// True when an object that a record names does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(StoreError::Missing { .. }))
    }
}

impl From<OpenLogError> for LedgerError {
    fn from(error: OpenLogError) -> Self {
        match error {
            OpenLogError::Store(error) => Self::Store(error),
            OpenLogError::Broken { seq, reason } => Self::Broken { seq, reason },
            OpenLogError::Gap { seq } => Self::Gap { seq },
        }
    }
}

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Self {
        let (kind, hint) = match error {
            LedgerError::Store(
                error @ (StoreError::Missing { .. }
                | StoreError::Corrupt { .. }
                | StoreError::WrongSize { .. }
                | StoreError::Damaged { .. }),
            ) => return Self::from(error).with_hint(RESTORE),
            LedgerError::Store(error) => return error.into(),
            LedgerError::Broken { .. } | LedgerError::Gap { .. } | LedgerError::Segment { .. } => {
                (ErrorKind::Store, RESTORE)
            }
            LedgerError::Refused { .. } => {
                (ErrorKind::Internal, "this is a bug in proofmill; please report it")
            }
            LedgerError::Contended { .. } => {
                (ErrorKind::Store, "run again when fewer processes write to this store")
            }
        };
        Self::new(kind, error.to_string()).with_hint(hint)
    }
}
