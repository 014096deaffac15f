//! Settings of `memory`: what users taught -> a table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reads a memory that users teach with `proofmill teach`, in its state when the pipeline is loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Name of the memory in the store. A memory without entries is an empty table.
    pub name: String,
    /// Number of first entries to read; all when absent.
    pub until: Option<u64>,
}
