//! What `measure` and `compare` share: what is counted, and how sure one can be.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of metrics, each with an SQL expression that gives a row's value: a boolean, or a number.
pub type Metrics = IndexMap<String, String>;

/// The name of the metric that `correct` stands for.
pub const ACCURACY: &str = "accuracy";

/// How intervals are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Resamples of a percentile bootstrap. Without it: Wilson's interval for booleans, the
    /// normal one for numbers, the clustered one where `cluster` is given.
    #[schemars(range(min = 100, max = 1_000_000))]
    pub bootstrap: Option<u32>,
    /// Seed of the bootstrap.
    #[serde(default)]
    pub seed: u64,
    /// Confidence level.
    #[serde(default = "level")]
    #[schemars(range(min = 0.5, max = 0.9999))]
    pub level: f64,
}

fn level() -> f64 {
    0.95
}

impl Default for Interval {
    fn default() -> Self {
        Self { bootstrap: None, seed: 0, level: level() }
    }
}

/// The metrics of a stage: `metrics` and what `correct` stands for.
pub fn all_metrics(correct: &Option<String>, metrics: &Option<Metrics>) -> Metrics {
    let mut all = metrics.clone().unwrap_or_default();
    if let Some(correct) = correct {
        all.shift_insert(0, ACCURACY.to_owned(), correct.clone());
    }
    all
}
