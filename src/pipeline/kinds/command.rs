//! Settings of `command`, a program of the user's; and what `python` shares with it: columns, and what
//! may be said of any program.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::read::ColumnType;
use crate::settings::StageRef;

/// Runs a program that reads tables and writes one. Its arguments are not parsed by a shell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments. A program without `/` is looked for in `PATH`, one with `/` from
    /// `folder`.
    #[schemars(length(min = 1))]
    pub run: Vec<String>,
    /// Table that the program reads from standard input; for `parquet`, from the file that
    /// `PROOFMILL_INPUT` names.
    pub from: Option<StageRef>,
    /// Further tables by name: each is a file, which `PROOFMILL_INPUT_<NAME>` names.
    #[serde(default)]
    pub inputs: IndexMap<String, StageRef>,
    /// How tables are passed in and out.
    #[serde(default)]
    pub format: Exchange,
    /// The columns that the program writes: name to type.
    #[schemars(extend("minProperties" = 1))]
    pub columns: IndexMap<String, OutputColumn>,
    /// Files and folders that decide what the program writes: scripts, modules, lock files, data. Their bytes are
    /// part of the fingerprint. Without any, the stage is computed in every run.
    #[serde(default)]
    pub code: Vec<String>,
    /// Names of environment variables to pass on. Their values are not stored and not part of the fingerprint.
    #[serde(default)]
    pub env: Vec<String>,
    /// Environment variables with their values, which are part of the fingerprint.
    #[serde(default)]
    pub vars: IndexMap<String, String>,
    /// Working folder of the program, relative to the working directory; that itself when absent.
    #[schemars(length(min = 1))]
    pub folder: Option<String>,
    /// Memory limit in MiB of the program and its child processes together.
    #[schemars(range(min = 1))]
    pub memory_mib: Option<u64>,
    /// Whether the same inputs and settings always give the same table, so that it may come from the
    /// store. When absent: if `code` says which files decide.
    pub pure: Option<bool>,
}

/// How tables are passed to a program and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Exchange {
    /// One JSON object per line, in UTF-8.
    #[default]
    Jsonl,
    /// Streams of Arrow IPC.
    Arrow,
    /// Parquet files, in and out.
    Parquet,
}

/// A column that a program writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OutputColumn {
    /// Its type; there is a value in every row.
    Type(ColumnType),
    /// Its type, and what else it may be.
    Full(OutputType),
}

/// The type of a column that a program writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputType {
    /// Type of a value, or of the items of a list.
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// Whether each value is a list.
    #[serde(default)]
    pub list: bool,
    /// Whether a row may have no value.
    #[serde(default)]
    pub nullable: bool,
}

impl OutputColumn {
    /// The type in full.
    pub fn full(&self) -> OutputType {
        match self {
            Self::Type(kind) => OutputType { kind: *kind, list: false, nullable: false },
            Self::Full(full) => full.clone(),
        }
    }
}
