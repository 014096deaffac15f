//! `class_scores`: precision, recall and F1 of each class.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, list_of, list_type};
use super::pairs::Pairs;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::ClassScore;

/// SQL aggregate `class_scores`.
pub static CLASS_SCORES: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "class_scores",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Precision, recall and F1 of each class that occurs on either side, in natural order, \
            with its rows: `n_gold` of the class, `n_predicted` as the class. To be unnested, as in \
            `SELECT unnest(scores)`; one class is `WHERE class = 'x'` behind it. A class that is \
            never predicted has precision 0, one that is never gold recall 0. Rows with a NULL are \
            left out; NULL without rows.",
        arguments: &[
            Argument::required("predicted", Kind::Label, "The label the system gave."),
            Argument::required("gold", Kind::Label, "The right label."),
        ],
        returns: "list of struct(class, precision, recall, f1, n_gold, n_predicted)",
        example: Example {
            sql: "SELECT s.class, s.precision, s.recall, round(s.f1, 4) AS f1, s.n_gold, s.n_predicted FROM (SELECT unnest(class_scores(p, g)) AS s FROM (VALUES ('a', 'a'), ('a', 'b'), ('b', 'b'), ('b', 'b')) AS t(p, g))",
            result: "
+----------+--------------+--------------------+--------+-----------+----------------+
| s[class] | s[precision] | s[recall]          | f1     | s[n_gold] | s[n_predicted] |
+----------+--------------+--------------------+--------+-----------+----------------+
| a        | 0.5          | 1.0                | 0.6667 | 1         | 2              |
| b        | 1.0          | 0.6666666666666666 | 0.8    | 3         | 2              |
+----------+--------------+--------------------+--------+-----------+----------------+
",
        },
    },
    return_type,
    state: Pairs::state_type,
    accumulator,
};

const NAMES: [&str; 6] = ["class", "precision", "recall", "f1", "n_gold", "n_predicted"];

fn return_type() -> DataType {
    list_type(&NAMES, &["class"], &["n_gold", "n_predicted"])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    Pairs::boxed(
        constants.function(),
        Box::new(|labels| {
            let table = labels.table();
            let row = |(class, score): (usize, ClassScore)| {
                vec![
                    Part::Text(table.classes[class].to_owned()),
                    Part::Number(score.precision),
                    Part::Number(score.recall),
                    Part::Number(score.f1),
                    Part::Count(table.gold[class]),
                    Part::Count(table.predicted[class]),
                ]
            };
            let rows: Vec<_> = table.scores().into_iter().enumerate().map(row).collect();
            Ok(list_of(&return_type(), &rows))
        }),
    )
}
