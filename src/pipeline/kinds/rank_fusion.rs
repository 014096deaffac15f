//! Settings of `rank_fusion`: several rankings of the same queries -> one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::StageRef;

/// Merges rankings by reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): a fact scores the
/// sum of `weight / (k + rank)` over the rankings that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RankFusion {
    /// Tables of `retrieve` stages, two or more.
    #[schemars(length(min = 2))]
    pub from: Vec<StageRef>,
    /// A weight above 0 for each table of `from`, in their order; 1 for all when absent.
    pub weights: Option<Vec<f64>>,
    /// Rank constant of the formula: larger values reduce the advantage of the first ranks.
    #[serde(default = "smoothing")]
    #[schemars(range(min = 0.0))]
    pub k: f64,
    /// Other columns that all rankings have and every row keeps, from the first ranking that has the fact.
    #[serde(default)]
    pub keep: Vec<String>,
    /// Maximum number of rows for one query.
    #[schemars(range(min = 1, max = 100_000))]
    pub top_k: u32,
}

fn smoothing() -> f64 {
    60.0
}
