//! `cluster_bootstrap_ci`: bootstrap interval of a mean over clusters.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::bootstrap_ci::{INTERVAL, interval};
use super::outputs::struct_type;
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{Method, cluster_bootstrap};

/// SQL aggregate `cluster_bootstrap_ci`.
pub static CLUSTER_BOOTSTRAP_CI: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "cluster_bootstrap_ci",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Mean with a seeded bootstrap interval that resamples whole clusters. The order and \
            partition of the rows do not matter. One cluster has no interval: `low`, `high` \
            and `se` are NULL. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("value", Kind::Number, "The score of the row."),
            Argument::required(
                "cluster",
                Kind::Label,
                "The cluster of the row: a user, a document, a seed.",
            ),
            Argument::required(
                "n_resamples",
                Kind::ConstantWhole,
                "Number of resamples, up to 1,000,000.",
            ),
            Argument::required(
                "seed",
                Kind::ConstantWhole,
                "Seed: the same seed and rows give the same result.",
            ),
            Argument::optional(
                "method",
                Kind::Choice(&["percentile", "bca"]),
                "`percentile` (default) or `bca`.",
            ),
            Argument::optional("level", Kind::ConstantNumber, "Confidence level (default 0.95)."),
        ],
        returns: "struct(value, low, high, se)",
        example: Example {
            sql: "SELECT cluster_bootstrap_ci(v, c, 1000, 42) AS ci FROM (VALUES (0.0, 'u'), (1.0, 'v'), (1.0, 'v'), (1.0, 'w'), (0.0, 'w')) AS t(v, c)",
            result: "
+-----------------------------------------------------------+
| ci                                                        |
+-----------------------------------------------------------+
| {value: 0.6, low: 0.0, high: 1.0, se: 0.2239318222508175} |
+-----------------------------------------------------------+
",
        },
    },
    return_type,
    state: Collector::state_type,
    accumulator,
};

fn return_type() -> DataType {
    struct_type(&INTERVAL, &[])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let (n_resamples, seed) = (constants.resamples(2)?, constants.seed(3));
    let method = constants.choice(4, str::parse)?.unwrap_or(Method::Percentile);
    let level = constants.level(5)?;
    Collector::boxed(
        constants.function(),
        Shape { paired: false, clusterings: 1 },
        &return_type(),
        Box::new(move |samples| {
            let clusters = &samples.clusters[0].column;
            Ok(interval(&cluster_bootstrap(
                &samples.values,
                clusters,
                n_resamples,
                seed,
                level,
                method,
            )?))
        }),
    )
}
