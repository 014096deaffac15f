//! Settings of `measure`: numbers with their denominators and intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::statistics::{Interval, Metrics};
use crate::settings::{Expression, StageRef};

/// Averages a value over the rows of a table. A row whose value is NULL was attempted and failed:
/// it counts as zero in `value`, and `value_answered` is the mean without such rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Table with one row per attempt.
    pub from: StageRef,
    /// SQL expression that is true for a right answer; short for a metric called `accuracy`.
    #[schemars(length(min = 1))]
    pub correct: Option<Expression>,
    /// Metrics by name, each an SQL expression of a row's value.
    pub metrics: Option<Metrics>,
    /// Columns that split the table; every metric is given for each of their values.
    #[serde(default)]
    pub by: Vec<String>,
    /// SQL expression that is true for rows to exclude entirely.
    #[schemars(length(min = 1))]
    pub exclude: Option<Expression>,
    /// Column whose equal values mark rows that are not independent.
    pub cluster: Option<String>,
    /// How intervals are made.
    #[serde(default)]
    pub ci: Interval,
}
