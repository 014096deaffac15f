//! What can go wrong with the store: one variant per fact, with the key it concerns.

use crate::obstacle::{Obstacle, chain, service_answer};
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind};
use proofmill_base::ids::RunId;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A text is not a place that can hold a store.
    #[error("`{text}` is not a store location: {reason}")]
    Location {
        /// The text, without credentials.
        text: String,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// A local folder cannot be made or used.
    #[error("failed to open the store folder `{path}`")]
    Folder { path: String, source: std::io::Error },
    /// A client for a remote store cannot be built.
    #[error("failed to set up the store `{url}`")]
    Open { url: String, source: object_store::Error },
    /// A place cannot be a store as it is named: bucket, credentials, permissions or region.
    #[error("the store `{url}` cannot be opened: {}", .obstacle.reason(.bucket))]
    Unusable { url: String, bucket: String, obstacle: Obstacle, source: Box<object_store::Error> },
    /// The service of a store does not answer, also after retries.
    #[error("the store `{url}` does not answer")]
    Unreachable { url: String, source: object_store::Error },
    /// The bucket or folder of the store is not there any more.
    #[error("failed to {op} `{key}`: the bucket or folder of the store no longer exists")]
    Gone { op: &'static str, key: String, source: object_store::Error },
    /// An operation on one object failed, also after retries.
    #[error("failed to {op} `{key}`")]
    Object { op: &'static str, key: String, source: object_store::Error },
    /// The store refuses an operation by nature: permissions, credentials, missing support.
    #[error("the store refuses to {op} `{key}`")]
    Refused { op: &'static str, key: String, source: object_store::Error },
    /// An object that should exist does not.
    #[error("`{key}` is not in the store")]
    Missing { key: String },
    /// A conditional put could not be resolved: the object may or may not be stored.
    #[error("the outcome of creating `{key}` is unknown after {attempts} attempts")]
    CommitUnknown { key: String, attempts: u32, source: object_store::Error },
    /// A record does not parse or its seal does not hold.
    #[error("the record `{key}` is damaged: {reason}")]
    Damaged { key: String, reason: String },
    /// A run names a record that another took the place of, and no copy of it is there.
    #[error("`{key}` is not the record that the run names, the one with SHA-256 {expected}")]
    Replaced {
        key: String,
        /// The digest of the one that is named.
        expected: Digest,
    },
    /// A record was written by a newer proofmill.
    #[error("`{key}` has format version {found}; this proofmill knows versions up to {known}")]
    Newer {
        key: String,
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// Stored bytes are not the bytes that were committed.
    #[error("`{key}` is corrupt: expected SHA-256 {expected}, found {found}")]
    Corrupt {
        key: String,
        /// The digest that was recorded.
        expected: Digest,
        /// The digest of what is stored.
        found: Digest,
    },
    /// A stored object is shorter or longer than what was committed.
    #[error("`{key}` is corrupt: expected {expected} bytes, found {found}")]
    WrongSize {
        key: String,
        /// The size that was recorded, in bytes.
        expected: u64,
        /// The size of what is stored, in bytes.
        found: u64,
    },
    /// A part holds another number of rows than its record says.
    #[error("`{key}` holds {found} rows; its record says {expected}")]
    WrongRows {
        key: String,
        /// The rows that were recorded.
        expected: u64,
        /// The rows that were decoded.
        found: u64,
    },
    /// Rows cannot be written as Parquet.
    #[error("failed to encode `{key}` as Parquet")]
    Encode { key: String, source: parquet::errors::ParquetError },
    /// Verified bytes are not readable Parquet.
    #[error("failed to decode `{key}` as Parquet: {reason}")]
    Decode { key: String, reason: String },
    /// A run that should be new has a log already.
    #[error("run `{run}` already has a log")]
    LogExists { run: RunId },
    /// A run has no log.
    #[error("run `{run}` has no log in this store")]
    LogMissing { run: RunId },
    /// An entry is missing between others.
    #[error("the log of run `{run}` is broken: entry {seq} is missing, later entries exist")]
    LogGap { run: RunId, seq: u64 },
    /// An entry does not continue the one before it.
    #[error(
        "the log of run `{run}` is broken: entry {seq} continues {}, the entry before it is {}",
        text(.found), text(.expected)
    )]
    ChainBroken {
        run: RunId,
        /// The entry that does not fit.
        seq: u64,
        /// The digest of the entry before it; none for the first.
        expected: Option<Digest>,
        /// The digest that the entry names.
        found: Option<Digest>,
    },
    /// An entry's header contradicts its place.
    #[error("the log of run `{run}` is broken: entry {seq} {reason}")]
    WrongEntry { run: RunId, seq: u64, reason: String },
    /// Another process took this run over.
    #[error("run `{run}` was taken over by {by} (epoch {epoch})")]
    Fenced {
        run: RunId,
        /// The epoch of the new owner.
        epoch: u64,
        by: String,
    },
    /// Another writer wrote under our epoch: it does not follow the protocol.
    #[error("entry {seq} of run `{run}` was written by {by}, which does not own the run")]
    Foreign { run: RunId, seq: u64, by: String },
    /// An earlier append failed, so that the head of the log is not known.
    #[error("the log of run `{run}` takes no more entries after an earlier failure")]
    LogStopped { run: RunId },
    /// A run has a manifest already, with other content.
    #[error("run `{run}` is already published")]
    ManifestExists { run: RunId },
    /// A blocking task of ours panicked.
    #[error("a task of the store failed")]
    Task {
        #[from]
        source: tokio::task::JoinError,
    },
}

/// Result with the store's error.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// True when the same call may succeed later without anybody acting.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Object { source, .. } => is_transient(source),
            Self::CommitUnknown { .. } => true,
            _ => false,
        }
    }

    /// True if the records of a run are not what was written, and will not be.
    pub fn is_broken_record(&self) -> bool {
        matches!(
            self,
            Self::Damaged { .. }
                | Self::LogGap { .. }
                | Self::ChainBroken { .. }
                | Self::WrongEntry { .. }
        )
    }

    /// The key of the object that it is about, where it is one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Gone { key, .. }
            | Self::Object { key, .. }
            | Self::Refused { key, .. }
            | Self::Missing { key }
            | Self::CommitUnknown { key, .. }
            | Self::Damaged { key, .. }
            | Self::Replaced { key, .. }
            | Self::Newer { key, .. }
            | Self::Corrupt { key, .. }
            | Self::WrongSize { key, .. }
            | Self::WrongRows { key, .. }
            | Self::Encode { key, .. }
            | Self::Decode { key, .. } => Some(key),
            _ => None,
        }
    }

    /// True if a newer program wrote the record.
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Newer { .. })
    }

    /// True if an object is not there or not what its record says: computing it again helps.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::Corrupt { .. }
                | Self::WrongSize { .. }
                | Self::WrongRows { .. }
                | Self::Decode { .. }
        )
    }

    /// The failure of `op` on `key`, sorted into missing, refused and failed.
    pub(crate) fn object(
        op: &'static str,
        key: impl ToString,
        source: object_store::Error,
    ) -> Self {
        let key = key.to_string();
        match source {
            object_store::Error::NotFound { .. }
                if Obstacle::of(&source, false) == Some(Obstacle::Absent) =>
            {
                Self::Gone { op, key, source }
            }
            object_store::Error::NotFound { .. } => Self::Missing { key },
            source if is_refusal(&source) => Self::Refused { op, key, source },
            source => Self::Object { op, key, source },
        }
    }

    /// The failure to write an object: that it is missing means that its bucket is.
    pub(crate) fn writing(
        op: &'static str,
        key: impl ToString,
        source: object_store::Error,
    ) -> Self {
        match source {
            object_store::Error::NotFound { .. } => Self::Gone { op, key: key.to_string(), source },
            source => Self::object(op, key, source),
        }
    }

    /// The failure to open the store at `url`, which is in `bucket`: an error in its name or of the
    /// environment is no failure of a store.
    pub(crate) fn at_opening(self, url: &str, bucket: &str) -> Self {
        let writes = matches!(self, Self::Gone { .. });
        match self {
            Self::Object { source, .. }
            | Self::Refused { source, .. }
            | Self::CommitUnknown { source, .. }
            | Self::Gone { source, .. }
                if let Some(obstacle) = Obstacle::at_opening(&source, writes) =>
            {
                let (url, bucket) = (url.to_owned(), bucket.to_owned());
                Self::Unusable { url, bucket, obstacle, source: Box::new(source) }
            }
            Self::Object { source, .. } | Self::CommitUnknown { source, .. } => {
                Self::Unreachable { url: url.to_owned(), source }
            }
            other => other,
        }
    }

    /// What the object store said, in one line.
    fn answer(&self) -> Option<String> {
        match self {
            Self::Open { source, .. }
            | Self::Unreachable { source, .. }
            | Self::Gone { source, .. }
            | Self::Object { source, .. }
            | Self::Refused { source, .. }
            | Self::CommitUnknown { source, .. } => Some(service_answer(source)),
            Self::Unusable { source, .. } => Some(service_answer(source)),
            other => std::error::Error::source(other).map(chain),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Location { .. } => {
                "use a folder, `file://`, `s3://bucket/prefix`, `gs://bucket/prefix`, \
                 `az://container/prefix` or `memory://`"
            }
            Self::Folder { .. } => {
                "check that the folder can be written and that the disk has space"
            }
            Self::Unusable { obstacle, .. } => obstacle.help(),
            Self::Unreachable { .. } => {
                "check the connection, and the endpoint in the environment, such as `AWS_ENDPOINT_URL`"
            }
            Self::Gone { .. } => "restore it, or name another store with `--store`",
            Self::Open { .. } | Self::Refused { .. } => {
                "check the credentials and permissions in the environment of this process, and that \
                 the store supports conditional writes"
            }
            Self::Object { .. } => "check the connection or the disk, then run the command again",
            Self::CommitUnknown { .. } => {
                "nothing was deleted; resume the run, which checks what was stored"
            }
            Self::Missing { .. }
            | Self::Corrupt { .. }
            | Self::WrongSize { .. }
            | Self::WrongRows { .. }
            | Self::Decode { .. } => {
                "restore the object from a backup, or compute it again with \
                 `proofmill run PIPELINE --verify`"
            }
            Self::Damaged { .. } => {
                "restore the record from a backup, or delete it and run the pipeline again"
            }
            Self::Replaced { .. } => {
                "the record was changed, or an older proofmill, which kept no copy, recomputed the table; \
                 a newer run has its own"
            }
            Self::Newer { .. } => "use the proofmill that wrote this store, or a newer one",
            Self::Encode { .. } => {
                "a column has a type that Parquet cannot hold; cast it in the stage"
            }
            Self::LogExists { .. } | Self::ManifestExists { .. } => "start a new run",
            Self::LogMissing { .. } => "list the runs with `proofmill runs`",
            Self::LogGap { .. } | Self::ChainBroken { .. } | Self::WrongEntry { .. } => {
                "the log was changed after it was written; restore it from a backup or start a new run"
            }
            Self::Fenced { .. } => "another process owns the run now; let it finish",
            Self::Foreign { .. } => "two processes write one run; stop both, then resume the run",
            Self::LogStopped { .. } => "resume the run",
            Self::Task { .. } => "this is a bug in proofmill; please report it",
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let kind = match error {
            StoreError::Location { .. } | StoreError::Open { .. } | StoreError::Unusable { .. } => {
                ErrorKind::Usage
            }
            StoreError::Encode { .. } => ErrorKind::Stage,
            StoreError::Task { .. } => ErrorKind::Internal,
            _ => ErrorKind::Store,
        };
        let (message, hint) = (error.to_string(), error.hint());
        let public = Self::new(kind, message).with_hint(hint);
        match error.answer() {
            Some(answer) => public.with_source(Cause { answer, error }),
            None => public,
        }
    }
}

/// What lies below a [`StoreError`] whose own message is shown already.
#[derive(Debug, thiserror::Error)]
#[error("{answer}")]
struct Cause {
    answer: String,
    #[allow(dead_code, reason = "kept for `Debug`")]
    error: StoreError,
}

/// True when the store will answer the same to the same request.
pub(crate) fn is_refusal(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    if matches!(error, E::Generic { .. }) {
        return Obstacle::of(error, false).is_some();
    }
    matches!(
        error,
        E::NotImplemented { .. }
            | E::NotSupported { .. }
            | E::PermissionDenied { .. }
            | E::Unauthenticated { .. }
            | E::InvalidPath { .. }
            | E::UnknownConfigurationKey { .. }
    )
}

/// True when a retry of an idempotent operation may succeed.
pub(crate) fn is_transient(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    matches!(error, E::Generic { .. } | E::JoinError { .. }) && !is_refusal(error)
}

fn text(digest: &Option<Digest>) -> String {
    digest.map_or_else(|| "nothing".to_owned(), |digest| digest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> object_store::Error {
        object_store::Error::Generic { store: "test", source: "reset by peer".into() }
    }

    #[test]
    fn errors_name_the_key_and_say_what_to_do() {
        let error = Error::from(StoreError::object("read", "runs/a", failed()));
        assert_eq!(error.kind, ErrorKind::Store);
        assert_eq!(error.message, "failed to read `runs/a`");
        assert!(error.hint.is_some_and(|hint| hint.contains("connection")));
        assert!(error.source.is_some_and(|cause| cause.to_string().contains("reset by peer")));
    }

    #[test]
    fn at_opening_the_store_is_named_and_not_its_record() {
        let opened = |error: StoreError| Error::from(error.at_opening("s3://b/p", "b"));
        let error = opened(StoreError::object("read", "format.json", failed()));
        assert_eq!(error.kind, ErrorKind::Store);
        assert_eq!(error.message, "the store `s3://b/p` does not answer");
        let machine = "PUT http://169.254.169.254/latest/api/token - timed out";
        let machine = object_store::Error::Generic { store: "S3", source: machine.into() };
        let error = opened(StoreError::object("read", "format.json", machine));
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.ends_with("there are no credentials for `b`"), "{}", error.message);
        let damaged = StoreError::Damaged { key: "format.json".into(), reason: "cut".into() };
        assert_eq!(opened(damaged).kind, ErrorKind::Store);
    }

    #[test]
    fn only_what_may_pass_is_transient() {
        assert!(StoreError::object("read", "a", failed()).is_transient());
        let denied =
            object_store::Error::PermissionDenied { path: "a".into(), source: "no".into() };
        assert!(!StoreError::object("read", "a", denied).is_transient());
    }
}
