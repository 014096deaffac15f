//! `mcc`: Matthews correlation.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::pairs::Pairs;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};

/// SQL aggregate `mcc`.
pub static MCC: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "mcc",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Matthews correlation of predicted and right labels, for any number of classes, -1 \
            to 1 (scikit-learn's `matthews_corrcoef`). If either column is constant it is 0. \
            Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("predicted", Kind::Label, "The label the system gave."),
            Argument::required("gold", Kind::Label, "The right label."),
        ],
        returns: "a double from -1 to 1",
        example: Example {
            sql: "SELECT round(mcc(p, g), 4) AS mcc FROM (VALUES (1, 1), (0, 1), (1, 1), (0, 0), (1, 0), (1, 1), (0, 0), (1, 1)) AS t(p, g)",
            result: "
+--------+
| mcc    |
+--------+
| 0.4667 |
+--------+
",
        },
    },
    return_type,
    state: Pairs::state_type,
    accumulator,
};

fn return_type() -> DataType {
    DataType::Float64
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    Pairs::boxed(
        constants.function(),
        Box::new(|labels| Ok(Ok(ScalarValue::Float64(labels.mcc())))),
    )
}
