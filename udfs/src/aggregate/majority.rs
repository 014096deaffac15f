//! `majority`: the label of more than half.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::pairs::Pairs;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::majority;

/// SQL aggregate `majority`.
pub static MAJORITY: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "majority",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "The label that more than half of the rows have, as text; NULL if there is none, as for a \
            tie. `mode` gives the most frequent one in any case. Rows with a NULL are left out; NULL \
            without rows.",
        arguments: &[Argument::required(
            "label",
            Kind::Label,
            "A label: text, a whole number or a boolean.",
        )],
        returns: "text",
        example: Example {
            sql: "SELECT g, majority(v) AS majority FROM (VALUES ('a', 'yes'), ('a', 'no'), ('a', 'yes'), ('b', 'yes'), ('b', 'no')) AS t(g, v) GROUP BY g ORDER BY g",
            result: "
+---+----------+
| g | majority |
+---+----------+
| a | yes      |
| b |          |
+---+----------+
",
        },
    },
    return_type,
    state: Pairs::state_type,
    accumulator,
};

fn return_type() -> DataType {
    DataType::Utf8
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    Pairs::of_one(
        constants.function(),
        Box::new(|labels| {
            let found = majority(labels.counts().map(|(_, label, n)| (label.as_str(), n)));
            Ok(Ok(ScalarValue::Utf8(found.map(str::to_owned))))
        }),
    )
}
