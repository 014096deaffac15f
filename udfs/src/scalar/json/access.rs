//! `json_get`, the operator `->`, and `json_as_text`, the operator `->>`: a value of any type.

use datafusion::arrow::array::StringArray;
use datafusion::arrow::datatypes::DataType;

use super::steps::{JSON, STEPS, each};
use crate::definition::{Doc, Example, FunctionKind};
use crate::scalar::ScalarDefinition;
use crate::text::json;

/// SQL function `json_get`.
pub static JSON_GET: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The value at the end of the steps, as JSON: a text keeps its quotes. The operator `json \
            -> step` is the same. Of a key that an object has twice, the last counts. NULL if there \
            is nothing, the text is not JSON, or an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "JSON as text",
        example: Example {
            sql: r#"SELECT json_get('{"scores": [7, {"style": "dry"}]}', 'scores', 1) AS found, '{"a": "b"}' -> 'a' AS quoted"#,
            result: r#"
+------------------+--------+
| found            | quoted |
+------------------+--------+
| {"style": "dry"} | "b"    |
+------------------+--------+
"#,
        },
    },
    return_type: |_| DataType::Utf8,
    invoke: |inputs| each::<_, StringArray>(inputs, |found| found.map(str::to_owned)),
};

/// SQL function `json_as_text`.
pub static JSON_AS_TEXT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_as_text",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The value at the end of the steps, as text: of a JSON text what it says, of everything \
            else its JSON. The operator `json ->> step` is the same. NULL for JSON's `null`, if \
            there is nothing, if the text is not JSON, or if an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "text",
        example: Example {
            sql: r#"SELECT json_as_text('{"label": "yes", "score": 0.5}', 'label') AS label, '{"label": "yes", "score": 0.5}' ->> 'score' AS score"#,
            result: "
+-------+-------+
| label | score |
+-------+-------+
| yes   | 0.5   |
+-------+-------+
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke: |inputs| {
        each::<_, StringArray>(inputs, |found| match found? {
            "null" => None,
            text if text.starts_with('"') => json::string(text),
            other => Some(other.to_owned()),
        })
    },
};
