//! `clustered_se`: standard error of a mean over clusters.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, struct_of, struct_type};
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{clustered_se, two_way_clustered_se};

/// SQL aggregate `clustered_se`.
pub static CLUSTERED_SE: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "clustered_se",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Mean with its clustered standard error (Liang and Zeger 1986), one-way or two-way \
            (Cameron, Gelbach and Miller 2011); `se_naive` ignores the clusters, `clusters` \
            counts them (two-way: the smaller count). With one cluster `se` is NULL. Rows with \
            a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("value", Kind::Number, "The score of the row."),
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
        returns: "struct(mean, se, se_naive, n, clusters)",
        example: Example {
            sql: "SELECT s.mean, round(s.se, 6) AS se, s.clusters FROM (SELECT clustered_se(v, c) AS s FROM (VALUES (1, 'u'), (1, 'u'), (0, 'v'), (1, 'w'), (0, 'w')) AS t(v, c))",
            result: "
+---------+--------+-------------+
| s[mean] | se     | s[clusters] |
+---------+--------+-------------+
| 0.6     | 0.2498 | 3           |
+---------+--------+-------------+
",
        },
    },
    return_type,
    state: Collector::state_type,
    accumulator,
};

fn return_type() -> DataType {
    struct_type(&["mean", "se", "se_naive", "n", "clusters"], &["n", "clusters"])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let two_way = constants.has(2);
    Collector::boxed(
        constants.function(),
        Shape { paired: false, clusterings: 1 + usize::from(two_way) },
        &return_type(),
        Box::new(move |samples| {
            let [first, second] = &samples.clusters;
            let clustered = if two_way {
                two_way_clustered_se(&samples.values, &first.column, &second.column)?
            } else {
                clustered_se(&samples.values, &first.column)?
            };
            let parts = [
                Part::Number(clustered.mean),
                Part::Number(clustered.se),
                Part::Number(clustered.se_naive),
                Part::Count(clustered.n as u64),
                Part::Count(clustered.clusters as u64),
            ];
            Ok(struct_of(&return_type(), &parts))
        }),
    )
}
