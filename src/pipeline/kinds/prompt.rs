//! Settings of `prompt`: a template, filled in for every row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::StageRef;

/// Fills in a template for every row of a table. The table keeps its columns and gets one more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["file"]}, {"required": ["text"]}]))]
pub struct Prompt {
    /// Table whose columns fill the slots.
    pub from: StageRef,
    /// A file that holds the template, relative to the working directory. The fingerprint covers its content, not
    /// its name.
    #[schemars(length(min = 1))]
    pub file: Option<String>,
    /// The template itself: Jinja, whose variables are columns of the table.
    #[schemars(length(min = 1))]
    pub text: Option<String>,
    /// Column of the text.
    #[serde(default = "prompt")]
    #[schemars(length(min = 1))]
    pub column: String,
}

fn prompt() -> String {
    "prompt".to_owned()
}
