//! `extract_json`: the JSON object that a model wrote into its prose.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::scalar::{Inputs, ScalarDefinition};
use crate::text::json::first_object;

/// SQL function `extract_json`.
pub static EXTRACT_JSON: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "extract_json",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The first whole JSON object of a text, as it stands there: behind words, inside a \
            fence of Markdown, before more words. For the functions that read JSON, which read none of \
            these. NULL if there is none: braces that are no object are passed over, an object that breaks \
            off or is not valid is not given in part, and neither is one inside it.",
        arguments: &[Argument::required("text", Kind::Text, "What a model wrote.")],
        returns: "JSON as text",
        example: Example {
            sql: r#"SELECT extract_json('Here it is: {"score": 7, "why": "It {nearly} fits."} Bye.') AS found"#,
            result: r#"
+------------------------------------------+
| found                                    |
+------------------------------------------+
| {"score": 7, "why": "It {nearly} fits."} |
+------------------------------------------+
"#,
        },
    },
    return_type: |_| DataType::Utf8,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let text = inputs.text(0)?;
    let found: StringArray = (0..inputs.rows).map(|row| first_object(text.get(row)?)).collect();
    Ok(Arc::new(found))
}
