//! `f1_score`: precision, recall and F1 over all classes.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, struct_of, struct_type};
use super::pairs::Pairs;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::Average;

/// SQL aggregate `f1_score`.
pub static F1_SCORE: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "f1_score",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Precision, recall and F1 of predicted labels over all classes (scikit-learn's \
            `precision_recall_fscore_support`): `macro` is the mean over the classes that occur on \
            either side, `weighted` over their gold rows, `micro` over the decisions, where all \
            three are the accuracy. A class that is never predicted has precision 0, one that is \
            never gold recall 0. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("predicted", Kind::Label, "The label the system gave."),
            Argument::required("gold", Kind::Label, "The right label."),
            Argument::optional(
                "average",
                Kind::Choice(&["macro", "micro", "weighted"]),
                "`macro` (default), `micro` or `weighted`.",
            ),
        ],
        returns: "struct(precision, recall, f1)",
        example: Example {
            sql: "SELECT f.precision, f.recall, round(f.f1, 4) AS f1 FROM (SELECT f1_score(p, g) AS f FROM (VALUES ('a', 'a'), ('a', 'b'), ('b', 'b'), ('b', 'b')) AS t(p, g))",
            result: "
+--------------+--------------------+--------+
| f[precision] | f[recall]          | f1     |
+--------------+--------------------+--------+
| 0.75         | 0.8333333333333333 | 0.7333 |
+--------------+--------------------+--------+
",
        },
    },
    return_type,
    state: Pairs::state_type,
    accumulator,
};

fn return_type() -> DataType {
    struct_type(&["precision", "recall", "f1"], &[])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let average = constants.choice(2, |name| name.parse::<Average>())?.unwrap_or(Average::Macro);
    Pairs::boxed(
        constants.function(),
        Box::new(move |labels| {
            let Some(score) = labels.table().average(average) else {
                return Ok(ScalarValue::try_from(&return_type()));
            };
            let parts = [score.precision, score.recall, score.f1].map(Part::Number);
            Ok(struct_of(&return_type(), &parts))
        }),
    )
}
