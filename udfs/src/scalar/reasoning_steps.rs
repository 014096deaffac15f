//! `reasoning_steps`: the steps of a reasoning that a prompted model wrote.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::reasoning;

/// SQL function `reasoning_steps`.
pub static REASONING_STEPS: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "reasoning_steps",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The steps of a reasoning that a model wrote as a list, one a line: what stands behind \
            `1.`, `1)`, `(1)`, `1:`, `Step 1:`, `-`, `*` or `•`, without `**`. Lines without such a mark \
            are none, nor are steps that begin with `therefore`, `thus`, `hence`, `so`, \
            `consequently` or `conclusion`: they say what follows, not from what. NULL if an \
            argument is NULL.",
        arguments: &[
            Argument::required("text", Kind::Text, "The reasoning."),
            Argument::optional(
                "conclusion",
                Kind::Text,
                "What the steps should show: one that only repeats it, whatever its case, white \
                 space and full stop, is left out.",
            ),
        ],
        returns: "list of texts",
        example: Example {
            sql: "SELECT unnest(reasoning_steps(E'1. A penny is copper.\\n2. Copper is no iron.\\nSo it stays.')) AS step",
            result: "
+--------------------+
| step               |
+--------------------+
| A penny is copper. |
| Copper is no iron. |
+--------------------+
",
        },
    },
    return_type: |_| DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let text = inputs.text(0)?;
    let conclusion = if inputs.has(1) { Some(inputs.text(1)?) } else { None };
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..inputs.rows {
        let steps = text.get(row).and_then(|text| match &conclusion {
            None => Some(reasoning::steps(text)),
            Some(conclusion) => {
                conclusion.get(row).map(|conclusion| reasoning::steps_towards(text, conclusion))
            }
        });
        lists.append_option(steps.map(|steps| steps.into_iter().map(Some)));
    }
    Ok(Arc::new(lists.finish()))
}
