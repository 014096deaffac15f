//! `normalize_text`: a text in the form in which answers are compared.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::StringArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::normalize::{Normalization, normalize};

/// SQL function `normalize_text`.
pub static NORMALIZE_TEXT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "normalize_text",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Normalises a text for comparison. `squad`: lower case, ASCII punctuation deleted, \
            articles deleted, spaces collapsed. `parlai`: the same, but punctuation becomes a \
            space. `plain`: lower case, spaces stripped and collapsed. NULL if the text is \
            NULL.",
        arguments: &[
            Argument::required("text", Kind::Text, "The text."),
            Argument::optional(
                "normalization",
                Kind::Choice(Normalization::NAMES),
                "`squad` (default), `parlai` or `plain`.",
            ),
        ],
        returns: "text",
        example: Example {
            sql: "SELECT normalize_text('The U.S.A.!') AS squad, normalize_text('The U.S.A.!', 'parlai') AS parlai",
            result: "
+-------+--------+
| squad | parlai |
+-------+--------+
| usa   | u s    |
+-------+--------+
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let normalization = inputs.choice(1, str::parse)?.unwrap_or(Normalization::Squad);
    let text = inputs.text(0)?;
    let normalized: StringArray = (0..inputs.rows)
        .map(|row| text.get(row).map(|text| normalize(text, normalization)))
        .collect();
    Ok(Arc::new(normalized))
}
