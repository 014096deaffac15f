//! Settings of `compare`: two systems on the same items.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::statistics::{Interval, Metrics};
use crate::settings::{Expression, StageRef};

/// Compares systems item by item: exact McNemar for booleans, paired bootstrap for all, Holm's
/// correction over the comparisons of a metric. Identical answers give p = 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["from"]}, {"required": ["baseline"]}]))]
pub struct Compare {
    /// One table with the rows of all systems, distinguished by `systems`.
    pub from: Option<StageRef>,
    /// With `from`: column that names the system.
    pub systems: Option<String>,
    /// With `from`: the system that all others are compared with; all pairs when absent.
    pub against: Option<String>,
    /// Table of the system to compare with.
    pub baseline: Option<StageRef>,
    /// With `baseline`: table of the system that is compared.
    pub candidate: Option<StageRef>,
    /// Columns that identify an item.
    pub key: Columns,
    /// SQL expression that is true for a right answer; short for a metric called `accuracy`.
    #[schemars(length(min = 1))]
    pub correct: Option<Expression>,
    /// Metrics by name, each an SQL expression of a row's value; NULL counts as zero.
    pub metrics: Option<Metrics>,
    /// Column whose equal values mark items that are not independent.
    pub cluster: Option<String>,
    /// Column that distinguishes repeated runs of the systems, such as a seed: items are paired within a run, and a
    /// difference is compared with the spread of the runs.
    pub reruns: Option<String>,
    /// For a comparison that is repeated, such as every night: the number of this look, from 1. The chance of a
    /// false alarm of a metric, over all looks together, is then at most 1 less the level of `ci`.
    #[schemars(range(min = 1))]
    pub look: Option<u64>,
    /// How intervals are made; `bootstrap` is 9999 when absent.
    #[serde(default)]
    pub ci: Interval,
}

/// One column or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Columns {
    /// A single column.
    One(String),
    /// Several columns.
    Many(#[schemars(length(min = 1))] Vec<String>),
}

impl Columns {
    /// All columns, in order.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(column) => std::slice::from_ref(column),
            Self::Many(columns) => columns,
        }
    }
}
