//! `weighted_vote`: the heaviest label.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::weighted_vote;

/// SQL aggregate `weighted_vote`.
pub static WEIGHTED_VOTE: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "weighted_vote",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "The label whose weights sum to the most, as text: votes of neighbours by their scores, \
            of judges by their reliability. Of equal sums, the first label in natural order: numbers \
            by value, then texts. Weights are added up in the order of their values, so that the \
            rows' order does not matter. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("label", Kind::Label, "A label: text, a whole number or a boolean."),
            Argument::required(
                "weight",
                Kind::Number,
                "How much the row counts; any finite number.",
            ),
        ],
        returns: "text",
        example: Example {
            sql: "SELECT weighted_vote(label, score) AS vote FROM (VALUES ('a', 0.9), ('b', 0.5), ('b', 0.5)) AS t(label, score)",
            result: "
+------+
| vote |
+------+
| b    |
+------+
",
        },
    },
    return_type,
    state: Collector::state_type,
    accumulator,
};

fn return_type() -> DataType {
    DataType::Utf8
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    Collector::boxed(
        constants.function(),
        Shape { paired: false, clusterings: 1 },
        &return_type(),
        Box::new(|samples| {
            let votes = samples.clusters[0].iter().zip(samples.values.iter().copied());
            Ok(Ok(ScalarValue::Utf8(Some(weighted_vote(votes)?.to_owned()))))
        }),
    )
}
