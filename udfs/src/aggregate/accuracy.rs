//! `accuracy`: share of right answers.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::tally::Tally;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};

/// SQL aggregate `accuracy`.
pub static ACCURACY: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "accuracy",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Share of rows that are true. Rows with a NULL are left out; NULL without rows.",
        arguments: &[Argument::required(
            "right",
            Kind::Boolean,
            "Whether the answer of the row is right.",
        )],
        returns: "a double from 0 to 1",
        example: Example {
            sql: "SELECT accuracy(answer = gold) AS accuracy FROM (VALUES ('a', 'a'), ('b', 'c'), (NULL, 'c'), ('d', 'd')) AS t(answer, gold)",
            result: "
+--------------------+
| accuracy           |
+--------------------+
| 0.6666666666666666 |
+--------------------+
",
        },
    },
    return_type,
    state: Tally::state_type,
    accumulator,
};

fn return_type() -> DataType {
    DataType::Float64
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let _ = constants;
    Tally::boxed(
        2,
        Box::new(|columns, counts| {
            let right = columns[0].as_boolean();
            counts[0] += right.true_count() as u64;
            counts[1] += (right.len() - right.null_count()) as u64;
            Ok(())
        }),
        Box::new(|counts| {
            let share = counts[0] as f64 / counts[1] as f64;
            Ok(ScalarValue::Float64((counts[1] > 0).then_some(share)))
        }),
    )
}
