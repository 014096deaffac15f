//! `bootstrap_ci`: bootstrap interval of a mean.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, struct_of, struct_type};
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{Interval, Method, bootstrap_mean};

/// SQL aggregate `bootstrap_ci`.
pub static BOOTSTRAP_CI: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "bootstrap_ci",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Mean with a seeded bootstrap interval, as `scipy.stats.bootstrap` defines both \
            methods; `se` is the standard deviation of the replicates. The order and partition \
            of the rows do not matter. One row has no interval: `low`, `high` and `se` are \
            NULL. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("value", Kind::Number, "The score of the row."),
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
            sql: "SELECT bootstrap_ci(v, 1000, 42) AS ci FROM (VALUES (0.0), (1.0), (1.0), (1.0), (0.0), (1.0)) AS t(v)",
            result: "
+-------------------------------------------------------------------------------------------+
| ci                                                                                        |
+-------------------------------------------------------------------------------------------+
| {value: 0.6666666666666666, low: 0.16666666666666666, high: 1.0, se: 0.19967608070039414} |
+-------------------------------------------------------------------------------------------+
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
    let (n_resamples, seed) = (constants.resamples(1)?, constants.seed(2));
    let method = constants.choice(3, str::parse)?.unwrap_or(Method::Percentile);
    let level = constants.level(4)?;
    Collector::boxed(
        constants.function(),
        Shape { paired: false, clusterings: 0 },
        &return_type(),
        Box::new(move |samples| {
            Ok(interval(&bootstrap_mean(&samples.values, n_resamples, seed, level, method)?))
        }),
    )
}

/// Names of the parts of an interval.
pub(super) const INTERVAL: [&str; 4] = ["value", "low", "high", "se"];

/// An interval as a struct.
pub(super) fn interval(interval: &Interval) -> Result<ScalarValue> {
    let parts = [interval.estimate, interval.low, interval.high, interval.se].map(Part::Number);
    struct_of(&return_type(), &parts)
}
