//! `slot_value`: one slot of a string of Entailer.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::slots;

/// SQL function `slot_value`.
pub static SLOT_VALUE: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "slot_value",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The value of a slot in what an Entailer model writes: `$name$ = value ; …`. Text \
            before the first slot is the slot `PREFIX`; the values of a slot that stands twice \
            are joined by ` ~AND~ `. NULL if the slot is not there.",
        arguments: &[
            Argument::required("text", Kind::Text, "What the model wrote."),
            Argument::required(
                "name",
                Kind::Text,
                "The slot, without `$`, in any case of letters.",
            ),
        ],
        returns: "text",
        example: Example {
            sql: "SELECT slot_value('$hypothesis$ = A penny is metal. ; $answer$ = no', 'hypothesis') AS hypothesis",
            result: "
+-------------------+
| hypothesis        |
+-------------------+
| A penny is metal. |
+-------------------+
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (text, name) = (inputs.text(0)?, inputs.text(1)?);
    let values: StringArray =
        (0..inputs.rows).map(|row| slots::slot_value(text.get(row)?, name.get(row)?)).collect();
    Ok(Arc::new(values))
}
