//! Settings of `tests:` — small tables in, expected tables out.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A row written in the file.
pub type Row = Map<String, Value>;

/// One test: the rows of some stages are given, the rows of others expected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// What the test shows.
    pub name: String,
    /// Rows that stand in for a stage's table. Columns that are left out are NULL,
    /// or empty where the stage never gives NULL.
    pub given: IndexMap<String, Vec<Row>>,
    /// Rows that a stage must give, in any order. Columns that are left out are not compared.
    pub expect: IndexMap<String, Vec<Row>>,
    /// Largest accepted difference between numbers.
    #[serde(default = "tolerance")]
    #[schemars(range(min = 0.0))]
    pub tolerance: f64,
}

fn tolerance() -> f64 {
    1e-9
}
