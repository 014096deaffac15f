//! Why a stage failed.

use std::io;
use std::time::Duration;

use datafusion::common::DataFusionError;

use crate::stages::queries::kept_order::Disorder;
use proofmill_base::error::{Error, ErrorKind};
use proofmill_files::{FilesError, WriteError};
use proofmill_retrieval::SearchError;
use proofmill_store::{Artifact, StoreError, Stored};

/// Why a stage failed.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The rows are not what the settings say.
    #[error("{message}")]
    Data { message: String, help: String },
    /// A second plan of its query gives other rows.
    #[error("{0}")]
    SecondPlan(String),
    /// Its rows are not in the order that its query ends in.
    #[error(transparent)]
    Disorder(#[from] Disorder),
    /// A check that must hold does not.
    #[error("{failed} of its checks failed: {first}")]
    Checks { failed: usize, first: String, rejected: Option<Box<Rejected>> },
    #[error("{}", first_line(.0))]
    Query(#[from] DataFusionError),
    /// Arrow refused an operation.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A source file could not be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The index failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A statistic cannot be computed.
    #[error(transparent)]
    Statistics(#[from] proofmill_udfs::stats::StatsError),
    /// A file of the host could not be written.
    #[error("`{path}` cannot be written: {source}")]
    Write { path: String, source: io::Error },
    /// It took longer than its `timeout`.
    #[error("it took longer than its timeout of {0:?}")]
    Timeout(Duration),
    /// A program took more memory than it may.
    #[error("`{program}` and its child processes took more than {mib} MiB of memory")]
    Memory { program: String, mib: u64 },
    #[error("it was stopped")]
    Stopped,
    #[error("a task failed: {0}")]
    Task(String),
}

impl From<WriteError> for StageError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Arrow(error) => Self::Arrow(error),
            WriteError::Parquet(error) => {
                Self::Query(DataFusionError::ParquetError(Box::new(error)))
            }
            WriteError::Out(source) => Self::Write { path: "the export".to_owned(), source },
            WriteError::Nested { .. }
            | WriteError::NotOneText { .. }
            | WriteError::Value { .. } => {
                let help = "write `jsonl` or `parquet`, or replace such values first".to_owned();
                Self::Data { message: error.to_string(), help }
            }
        }
    }
}

/// A table whose checks failed, kept for people to look at.
#[derive(Debug)]
pub struct Rejected {
    pub artifact: Stored<Artifact>,
    /// A query that gives the rows at fault, if rows are.
    pub query: Option<String>,
}

impl StageError {
    /// True if trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            _ => false,
        }
    }
}

/// Whether there is no room left.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// DataFusion's message without its own prefixes and notes.
fn first_line(error: &DataFusionError) -> String {
    let message = error.find_root().strip_backtrace();
    let prefixes = ["Execution error: ", "Arrow error: ", "External error: ", "Cast error: "];
    prefixes.iter().fold(&*message, |text, prefix| text.trim_start_matches(prefix)).to_owned()
}

impl From<StageError> for Error {
    fn from(error: StageError) -> Self {
        let message = error.to_string();
        match error {
            StageError::Data { help, .. } => Error::new(ErrorKind::Stage, message).with_hint(help),
            StageError::Store(error) => error.into(),
            StageError::Files(error) => error.into(),
            StageError::Search(error) => error.into(),
            StageError::Timeout(_) => Error::new(ErrorKind::Resources, message)
                .with_hint("raise `timeout` or make the stage smaller"),
            StageError::Memory { .. } => Error::new(ErrorKind::Resources, message)
                .with_hint("raise `memory_mib`, or hold fewer rows at once in the program"),
            StageError::Stopped => Error::new(ErrorKind::Interrupted, message),
            StageError::Task(_) => Error::new(ErrorKind::Internal, message),
            StageError::Write { source, .. } if is_full(&source) => {
                Error::new(ErrorKind::Store, message).with_hint(
                    "free space there, then run again: stored stages are not recomputed",
                )
            }
            StageError::Query(ref query)
                if matches!(query.find_root(), DataFusionError::ResourcesExhausted(_)) =>
            {
                Error::new(ErrorKind::Resources, message).with_hint(
                    "give it more memory with `--memory`, or make the stage smaller with a filter",
                )
            }
            StageError::SecondPlan(_) => Error::new(ErrorKind::Stage, message).with_hint(
                "this is a bug in the query engine: please report it with both plans, and rewrite the query",
            ),
            StageError::Disorder(_) => Error::new(ErrorKind::Stage, message).with_hint(
                "the engine does not sort this query as specified: please report it, and sort in a stage of its own",
            ),
            StageError::Checks { .. } => Error::new(ErrorKind::Stage, message)
                .with_hint("fix the data or the check, or set `severity: warn`"),
            StageError::Query(_)
            | StageError::Arrow(_)
            | StageError::Statistics(_)
            | StageError::Write { .. } => Error::new(ErrorKind::Stage, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_the_stores_and_says_what_to_do() {
        let written = |kind: io::ErrorKind| {
            Error::from(StageError::Write { path: "model".to_owned(), source: kind.into() })
        };
        for full in
            [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge]
        {
            let error = written(full);
            assert_eq!(error.kind, ErrorKind::Store);
            assert!(format!("{error:?}").contains("free space there"), "{error:?}");
        }
        assert_eq!(written(io::ErrorKind::PermissionDenied).kind, ErrorKind::Stage);
    }
}
