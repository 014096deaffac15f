//! The error that leaves the library: who must act, what happened, what to do.

use std::fmt;

/// Who must act on an error. Decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line asks for something that does not exist or does not fit together.
    Usage,
    /// The pipeline file is wrong; diagnostics say where.
    Pipeline,
    /// The data, a check or a computation of a stage failed.
    Stage,
    /// The store failed or refused.
    Store,
    /// A limit on memory, disk or time was reached.
    Resources,
    Interrupted,
    /// Nothing is wrong, and no verdict follows.
    Undecided,
    /// For a search for the change that broke something: this version tells nothing.
    Untestable,
    /// A bug in proofmill itself.
    Internal,
}

/// A failure as the user meets it.
#[derive(Debug)]
pub struct Error {
    pub kind: ErrorKind,
    /// What happened: a lower-case fragment that reads after "error:".
    pub message: String,
    pub hint: Option<String>,
    /// The cause, where there is a deeper one.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Result with the public error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    /// Adds what to do.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the cause.
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
