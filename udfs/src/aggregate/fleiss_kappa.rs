//! `fleiss_kappa`: agreement of several raters beyond chance.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::pairs::Pairs;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::fleiss_kappa;

/// SQL aggregate `fleiss_kappa`.
pub static FLEISS_KAPPA: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "fleiss_kappa",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Fleiss' kappa of several raters, a row for each rating (statsmodels' `fleiss_kappa`). \
            All items need equally many ratings, or it is an error that names the item: leave out \
            those that a rater did not answer. NULL with one rating an item, and if all ratings are \
            the same label. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("item", Kind::Label, "What was rated."),
            Argument::required("label", Kind::Label, "The label that a rater gave it."),
        ],
        returns: "a double up to 1",
        example: Example {
            sql: "SELECT round(fleiss_kappa(item, label), 4) AS kappa FROM (VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, 'b'), (2, 'b'), (2, 'b')) AS t(item, label)",
            result: "
+-------+
| kappa |
+-------+
| 0.25  |
+-------+
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
        Box::new(|pairs| {
            // The item is the first argument.
            let ratings = pairs.counts().map(|(label, item, n)| (item.as_str(), label.as_str(), n));
            Ok(Ok(ScalarValue::Float64(fleiss_kappa(ratings)?)))
        }),
    )
}
