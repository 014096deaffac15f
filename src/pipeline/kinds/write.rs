//! Settings of `write`: a table exported to a file outside the store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::read::Format;
use crate::settings::StageRef;

/// Exports a table. The file is replaced atomically. Its table records what was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Table to export.
    pub from: StageRef,
    /// File to write, relative to the working directory.
    #[schemars(length(min = 1))]
    pub path: String,
    /// Format of the file; inferred from its name when absent.
    pub format: Option<Format>,
}
