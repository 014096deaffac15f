//! `mode`: the most frequent label.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::pairs::Pairs;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::mode;

/// SQL aggregate `mode`.
pub static MODE: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "mode",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "The most frequent label, as text. Of labels that are equally frequent, the first one in \
            natural order: numbers by value, then texts, with numbers inside them by value. Rows \
            with a NULL are left out; NULL without rows.",
        arguments: &[Argument::required(
            "label",
            Kind::Label,
            "A label: text, a whole number or a boolean.",
        )],
        returns: "text",
        example: Example {
            sql: "SELECT g, mode(v) AS mode FROM (VALUES ('a', 15), ('a', 5), ('a', 5), ('b', 15), ('b', 5)) AS t(g, v) GROUP BY g ORDER BY g",
            result: "
+---+------+
| g | mode |
+---+------+
| a | 5    |
| b | 5    |
+---+------+
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
            let found = mode(labels.counts().map(|(_, label, n)| (label.as_str(), n)));
            Ok(Ok(ScalarValue::Utf8(found.map(str::to_owned))))
        }),
    )
}
