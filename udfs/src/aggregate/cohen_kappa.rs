//! `cohen_kappa`: agreement of two raters beyond chance.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::pairs::Pairs;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{KappaWeights, cohen_kappa};

/// SQL aggregate `cohen_kappa`.
pub static COHEN_KAPPA: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "cohen_kappa",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Cohen's kappa of two raters of the same items (scikit-learn's `cohen_kappa_score`). With \
            `linear` or `quadratic`, a disagreement counts by the distance of the two classes in \
            natural order, numbers by value: classes that nobody gave do not count, as in \
            scikit-learn. NULL if both raters give one and the same class to all. Rows with a NULL \
            are left out; NULL without rows.",
        arguments: &[
            Argument::required("first", Kind::Label, "The label of the first rater."),
            Argument::required("second", Kind::Label, "The label of the second rater."),
            Argument::optional(
                "weights",
                Kind::Choice(&["none", "linear", "quadratic"]),
                "`none` (default), `linear` or `quadratic`.",
            ),
        ],
        returns: "a double up to 1",
        example: Example {
            sql: "SELECT round(cohen_kappa(a, b), 4) AS kappa, round(cohen_kappa(a, b, 'quadratic'), 4) AS weighted FROM (VALUES (1, 1), (2, 1), (3, 3), (3, 2), (1, 1), (2, 2)) AS t(a, b)",
            result: "
+-------+----------+
| kappa | weighted |
+-------+----------+
| 0.5   | 0.75     |
+-------+----------+
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
    let weights = constants.choice(2, |name| name.parse::<KappaWeights>())?;
    let weights = weights.unwrap_or(KappaWeights::Unweighted);
    Pairs::boxed(
        constants.function(),
        Box::new(move |labels| Ok(Ok(ScalarValue::Float64(cohen_kappa(&labels.table(), weights))))),
    )
}
