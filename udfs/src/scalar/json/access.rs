//! `json_get`, the operator `->`, and `json_as_text`, the operator `->>`: a value of any type.

use datafusion::arrow::datatypes::DataType;
use datafusion_functions_json::udfs::{json_as_text_udf, json_get_json_udf};

use super::steps::{JSON, STEPS, call};
use crate::definition::{Doc, Example, FunctionKind};
use crate::scalar::ScalarDefinition;

/// SQL function `json_get`.
pub static JSON_GET: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The value at the end of the steps, as JSON: a text keeps its quotes. The operator `json \
            -> step` is the same. What comes behind the value is not looked at; of a key that stands \
            twice, the first counts. NULL if there is nothing, the text is not JSON, or an argument \
            is NULL.",
        arguments: &[JSON, STEPS],
        returns: "JSON as text",
        example: Example {
            sql: r#"SELECT json_get('{"scores": [7, {"style": "dry"}]}', 'scores', 1) AS found, '{"a": "b"}' -> 'a' AS quoted"#,
            result: "
EXAMPLE
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke: |inputs| call(inputs, &json_get_json_udf(), &DataType::Utf8),
};

/// SQL function `json_as_text`.
pub static JSON_AS_TEXT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_as_text",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The value at the end of the steps, as text: of a JSON text what it says, of everything \
            else its JSON. The operator `json ->> step` is the same. NULL for JSON's `null`, if \
            there is nothing, if the text is not JSON, or if an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "text",
        example: Example {
            sql: r#"SELECT json_as_text('{"label": "yes", "score": 0.5}', 'label') AS label, '{"label": "yes", "score": 0.5}' ->> 'score' AS score"#,
            result: "
EXAMPLE
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke: |inputs| call(inputs, &json_as_text_udf(), &DataType::Utf8),
};
