//! `premises`: the sentences of a one-step proof of Entailer.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::slots;

/// SQL function `premises`.
pub static PREMISES: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "premises",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The premises of a proof as an Entailer model writes it: \
            `$proof$ = [PREMISE] … [PREMISE] …`, or the same without the slot. Empty premises are \
            left out. NULL if the text is NULL.",
        arguments: &[Argument::required("text", Kind::Text, "The proof.")],
        returns: "list of texts",
        example: Example {
            sql: "SELECT premises('$proof$ = [PREMISE] A penny is copper. [PREMISE] Copper is a metal.') AS premises",
            result: "
+------------------------------------------+
| premises                                 |
+------------------------------------------+
| [A penny is copper., Copper is a metal.] |
+------------------------------------------+
",
        },
    },
    return_type: |_| DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let text = inputs.text(0)?;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..inputs.rows {
        lists.append_option(text.get(row).map(|text| slots::premises(text).into_iter().map(Some)));
    }
    Ok(Arc::new(lists.finish()))
}
