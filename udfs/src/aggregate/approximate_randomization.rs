//! `approximate_randomization`: randomisation test of two systems on the same items.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::outputs::number;
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::randomization_of_differences;

/// SQL aggregate `approximate_randomization`.
pub static APPROXIMATE_RANDOMIZATION: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "approximate_randomization",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Two-sided p value of the mean difference by paired approximate randomisation \
            (Noreen 1989): the two systems are swapped per item at random. Identical columns \
            give 1. The order and partition of the rows do not matter. Rows with a NULL are \
            left out; NULL without rows.",
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
        ],
        returns: "a double from 0 to 1",
        example: Example {
            sql: "SELECT approximate_randomization(a, b, 1000, 42) AS p FROM (VALUES (1, 1), (0, 0), (1, 1)) AS t(a, b)",
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
    DataType::Float64
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let (n_resamples, seed) = (constants.resamples(2)?, constants.seed(3));
    Collector::boxed(
        constants.function(),
        Shape { paired: true, clusterings: 0 },
        &return_type(),
        Box::new(move |samples| {
            Ok(Ok(number(randomization_of_differences(&samples.values, n_resamples, seed)?)))
        }),
    )
}
