//! Settings of `checks`: what must hold for a table before anything may depend on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::compare::Columns;

/// One check: exactly one of the conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["rows"]}, {"required": ["not_null"]}, {"required": ["unique"]},
    {"required": ["accepted_values"]}, {"required": ["expect"]},
]))]
pub struct Check {
    /// Bounds on the number of rows.
    pub rows: Option<Rows>,
    /// Columns that are never NULL.
    pub not_null: Option<Columns>,
    /// Columns whose values, taken together, never repeat.
    pub unique: Option<Columns>,
    /// Column with a closed set of values.
    pub accepted_values: Option<AcceptedValues>,
    /// SQL expression that is true for every row.
    #[schemars(length(min = 1))]
    pub expect: Option<String>,
    /// Whether a violation stops the run (`error`) or is only reported (`warn`).
    #[serde(default)]
    pub severity: CheckSeverity,
}

/// Bounds on the number of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct Rows {
    /// Minimum number of rows.
    pub min: Option<u64>,
    /// Maximum number of rows.
    pub max: Option<u64>,
    /// Exact number of rows.
    pub equal: Option<u64>,
    /// Exactly as many as another stage has.
    pub equal_to: Option<String>,
}

/// A closed set of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptedValues {
    /// The column; NULL is accepted.
    pub column: String,
    /// The values: compared as texts if one of them is a text, with their own types otherwise.
    #[schemars(length(min = 1))]
    pub values: Vec<Scalar>,
}

/// A scalar of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// Text.
    Text(String),
    /// True or false.
    Bool(bool),
    /// Whole number.
    Int(i64),
    /// Number.
    Float(f64),
}

impl Scalar {
    /// The value as text, as SQL's cast to text writes it.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
        }
    }
}

/// Severity of a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckSeverity {
    /// The stage fails: nothing depends on it and the run is not published.
    #[default]
    Error,
    /// The violation is reported and the run continues.
    Warn,
}
