//! Settings of `python`: a function in a file, called for rows, batches or Arrow batches.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::Scalar;
use crate::kinds::command::OutputColumn;
use crate::settings::StageRef;

/// Calls a Python function with the rows of a table; what it returns is the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Python {
    /// File with the function, relative to the working directory. Its bytes are part of the fingerprint.
    #[schemars(length(min = 1))]
    pub file: String,
    /// Name of the function.
    #[schemars(length(min = 1))]
    pub function: String,
    /// Table whose rows it is called with.
    pub from: StageRef,
    /// What one call gets.
    #[serde(default)]
    pub by: CallBy,
    /// Rows of one call, for `batch` and `arrow`; 1,024 when absent.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub batch_rows: Option<u32>,
    /// Arguments that every call gets by name, beside the rows.
    #[serde(default)]
    pub arguments: IndexMap<String, Scalar>,
    /// The columns of what it returns: name to type.
    #[schemars(extend("minProperties" = 1))]
    pub columns: IndexMap<String, OutputColumn>,
    /// The Python that runs it: a program in `PATH`, or a path from the working directory; `python3`
    /// when absent.
    #[schemars(length(min = 1))]
    pub interpreter: Option<String>,
    /// Further files and folders that decide what it returns: modules that it imports, lock files, data. Their
    /// bytes are part of the fingerprint.
    #[serde(default)]
    pub code: Vec<String>,
    /// Names of environment variables to pass on. Their values are not stored and not part of the fingerprint.
    #[serde(default)]
    pub env: Vec<String>,
    /// Environment variables with their values, which are part of the fingerprint.
    #[serde(default)]
    pub vars: IndexMap<String, String>,
    /// Memory limit in MiB of Python and its child processes together.
    #[schemars(range(min = 1))]
    pub memory_mib: Option<u64>,
    /// Whether the same rows and settings always give the same table, so that it may come from the
    /// store. When absent it may, and a module beside `file` that `code` does not name is an error.
    pub pure: Option<bool>,
}

/// What one call of a function gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallBy {
    /// A row, as a `dict`; it returns a `dict`, several in a list, or `None` for no row.
    #[default]
    Row,
    /// A list of rows; it returns a list of rows.
    Batch,
    /// A `pyarrow.RecordBatch`; it returns one, or a `pyarrow.Table`.
    Arrow,
}
