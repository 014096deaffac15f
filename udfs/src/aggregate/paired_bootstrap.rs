//! `paired_bootstrap`: bootstrap test of two systems on the same items.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, struct_of, struct_type};
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::paired_bootstrap_of_differences;

/// SQL aggregate `paired_bootstrap`.
pub static PAIRED_BOOTSTRAP: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "paired_bootstrap",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Mean difference first - second with a seeded paired bootstrap: percentile interval \
            and two-sided p value (Koehn 2004). Positive: the first system is better. \
            Identical columns give p = 1. The order and partition of the rows do not matter. \
            One row has no interval: `low`, `high` and `se` are NULL and p is 1. Rows with a \
            NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("first", Kind::Number, "Score of the first system on the item."),
            Argument::required("second", Kind::Number, "Score of the second system on the item."),
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
            Argument::optional("level", Kind::ConstantNumber, "Confidence level (default 0.95)."),
        ],
        returns: "struct(diff, low, high, se, p)",
        example: Example {
            sql: "SELECT paired_bootstrap(a, b, 1000, 42)['p'] AS p FROM (VALUES (1, 1), (0, 0), (1, 1)) AS t(a, b)",
            result: "
+-----+
| p   |
+-----+
| 1.0 |
+-----+
",
        },
    },
    return_type,
    state: Collector::state_type,
    accumulator,
};

fn return_type() -> DataType {
    struct_type(&["diff", "low", "high", "se", "p"], &[])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let (n_resamples, seed) = (constants.resamples(2)?, constants.seed(3));
    let level = constants.level(4)?;
    Collector::boxed(
        constants.function(),
        Shape { paired: true, clusterings: 0 },
        &return_type(),
        Box::new(move |samples| {
            let test = paired_bootstrap_of_differences(&samples.values, n_resamples, seed, level)?;
            let parts = [test.diff, test.low, test.high, test.se, test.p].map(Part::Number);
            Ok(struct_of(&return_type(), &parts))
        }),
    )
}
