//! A query that has a plan and would be answered wrongly.

use thiserror::Error;

/// What cannot be answered rightly, and how to write it instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refused {
    pub message: String,
    pub help: String,
    /// Words of the text to blame, the best first.
    pub blamed: Vec<String>,
}

impl Refused {
    /// As the planner passes errors on.
    pub fn error<T>(self) -> datafusion::common::Result<T> {
        Err(datafusion::common::DataFusionError::External(Box::new(self)))
    }
}
