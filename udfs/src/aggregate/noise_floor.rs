//! `noise_floor`: how far identical runs lie apart.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, struct_of, struct_type};
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::noise_floor;

/// SQL aggregate `noise_floor`.
pub static NOISE_FLOOR: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "noise_floor",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Spread of a metric over runs that should not differ, such as other seeds or a second run \
            of one system: `floor` is the largest difference of two runs, `sd` the standard deviation (divisor \
            n - 1). A difference of two systems that is not above `floor` is no regression; one run has no \
            noise to tell (`floor` is 0, `sd` NULL). Rows with a NULL are left out; NULL without rows.",
        arguments: &[Argument::required(
            "value",
            Kind::Number,
            "The metric of one run, such as its mean over the items.",
        )],
        returns: "struct(mean, sd, floor, runs)",
        example: Example {
            sql: "SELECT round(n.mean, 4) AS mean, round(n.sd, 4) AS sd, round(n.floor, 4) AS floor, n.runs FROM (SELECT noise_floor(accuracy) AS n FROM (VALUES (0.75), (0.7), (0.725)) AS runs(accuracy))",
            result: "
+-------+-------+-------+---------+
| mean  | sd    | floor | n[runs] |
+-------+-------+-------+---------+
| 0.725 | 0.025 | 0.05  | 3       |
+-------+-------+-------+---------+
",
        },
    },
    return_type,
    state: Collector::state_type,
    accumulator,
};

fn return_type() -> DataType {
    struct_type(&["mean", "sd", "floor", "runs"], &["runs"])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    Collector::boxed(
        constants.function(),
        Shape { paired: false, clusterings: 0 },
        &return_type(),
        Box::new(|samples| {
            let noise = noise_floor(&samples.values)?;
            let parts = [
                Part::Number(noise.mean),
                Part::Number(noise.sd),
                Part::Number(noise.floor),
                Part::Count(noise.runs as u64),
            ];
            Ok(struct_of(&return_type(), &parts))
        }),
    )
}
