//! Settings of `write`: a table exported to a file outside the store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Exports a table. The file is replaced as a whole, never half. As a table it tells what was
/// written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Table to export.
    pub from: String,
    /// File to write, relative to the working directory.
    #[schemars(length(min = 1))]
    pub path: String,
    /// How it is written; told from its name when absent.
    pub format: Option<WriteFormat>,
}

/// How an exported table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WriteFormat {
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
    /// Apache Parquet.
    Parquet,
}
