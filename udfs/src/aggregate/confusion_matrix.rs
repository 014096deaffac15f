//! `confusion_matrix`: how often each class was taken for each.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, list_of, list_type};
use super::pairs::Pairs;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::StatsError;

/// Classes of a matrix at most: it has a cell for each pair.
const CLASSES_MAX: usize = 1_000;

/// SQL aggregate `confusion_matrix`.
pub static CONFUSION_MATRIX: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "confusion_matrix",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "How often each gold class got each predicted one, pairs that never occur included, in \
            natural order, for up to 1,000 classes. To be unnested, as in `SELECT unnest(cells)`. \
            Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("predicted", Kind::Label, "The label the system gave."),
            Argument::required("gold", Kind::Label, "The right label."),
        ],
        returns: "list of struct(gold, predicted, n)",
        example: Example {
            sql: "SELECT c.gold, c.predicted, c.n FROM (SELECT unnest(confusion_matrix(p, g)) AS c FROM (VALUES ('a', 'a'), ('a', 'b'), ('b', 'b'), ('b', 'b')) AS t(p, g))",
            result: "
+---------+--------------+------+
| c[gold] | c[predicted] | c[n] |
+---------+--------------+------+
| a       | a            | 1    |
| a       | b            | 0    |
| b       | a            | 1    |
| b       | b            | 2    |
+---------+--------------+------+
",
        },
    },
    return_type,
    state: Pairs::state_type,
    accumulator,
};

fn return_type() -> DataType {
    list_type(&["gold", "predicted", "n"], &["gold", "predicted"], &["n"])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    Pairs::boxed(
        constants.function(),
        Box::new(|labels| {
            let table = labels.table();
            let classes = table.classes.len();
            if classes > CLASSES_MAX {
                return Err(StatsError::Classes { found: classes, max: CLASSES_MAX });
            }
            let mut cells = vec![0; classes * classes];
            table
                .cells
                .iter()
                .for_each(|(gold, predicted, n)| cells[gold * classes + predicted] = *n);
            let row = |(place, n): (usize, u64)| {
                let class = |at: usize| Part::Text(table.classes[at].to_owned());
                vec![class(place / classes), class(place % classes), Part::Count(n)]
            };
            let rows: Vec<_> = cells.into_iter().enumerate().map(row).collect();
            Ok(list_of(&return_type(), &rows))
        }),
    )
}
