//! `clustered_paired`: difference of two systems on items that come in clusters.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::paired_difference::difference;
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{clustered_se, two_way_clustered_se};

/// SQL aggregate `clustered_paired`.
pub static CLUSTERED_PAIRED: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "clustered_paired",
        version: 2,
        kind: FunctionKind::Aggregate,
        description: "Mean of the item-wise differences first - second with a clustered standard error, \
            one-way or two-way. `z` is the difference in standard errors; `p` and the interval \
            are those of the t distribution with one degree of freedom less than there are \
            clusters (two-way: the smaller count). Positive: the first system is better. \
            Without any difference `p` is 1. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("first", Kind::Number, "Score of the first system on the item."),
            Argument::required("second", Kind::Number, "Score of the second system on the item."),
            Argument::required(
                "cluster",
                Kind::Label,
                "The cluster of the row: a user, a document, a seed.",
            ),
            Argument::optional(
                "second_cluster",
                Kind::Label,
                "A second clustering that crosses the first: two-way error.",
            ),
        ],
        returns: "struct(diff, se, z, p, low, high, n)",
        example: Example {
            sql: "SELECT d.diff, round(d.se, 4) AS se FROM (SELECT clustered_paired(a, b, c) AS d FROM (VALUES (1, 0, 'u'), (1, 1, 'u'), (0, 1, 'v'), (1, 0, 'w')) AS t(a, b, c))",
            result: "
+---------+--------+
| d[diff] | se     |
+---------+--------+
| 0.25    | 0.4719 |
+---------+--------+
",
        },
    },
    return_type,
    state: Collector::state_type,
    accumulator,
};

fn return_type() -> DataType {
    (super::paired_difference::PAIRED_DIFFERENCE.return_type)()
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let two_way = constants.has(3);
    Collector::boxed(
        constants.function(),
        Shape { paired: true, clusterings: 1 + usize::from(two_way) },
        &return_type(),
        Box::new(move |samples| {
            let [first, second] = &samples.clusters;
            let clustered = if two_way {
                two_way_clustered_se(&samples.values, &first.column, &second.column)?
            } else {
                clustered_se(&samples.values, &first.column)?
            };
            Ok(difference(&clustered.difference(LEVEL)?))
        }),
    )
}

/// The interval holds the difference with this confidence.
const LEVEL: f64 = 0.95;
