//! Values of one type out of JSON: `json_get_str`, `json_get_int`, `json_get_float`, `json_get_bool`.

use datafusion::arrow::array::{BooleanArray, Float64Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::DataType;

use super::steps::{JSON, STEPS, each};
use crate::definition::{Doc, Example, FunctionKind};
use crate::scalar::ScalarDefinition;
use crate::text::json;

/// SQL function `json_get_str`.
pub static JSON_GET_STR: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_str",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The text at the end of the steps; NULL for a value of another type. NULL if there is \
            nothing, the text is not JSON, or an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "text",
        example: Example {
            sql: r#"SELECT json_get_str('{"label": "yes", "score": 7}', 'label') AS label, json_get_str('{"label": "yes", "score": 7}', 'score') AS score"#,
            result: "
+-------+-------+
| label | score |
+-------+-------+
| yes   |       |
+-------+-------+
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke: |inputs| each::<_, StringArray>(inputs, |found| json::string(found?)),
};

/// SQL function `json_get_int`.
pub static JSON_GET_INT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_int",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The whole number at the end of the steps, also one written like `7.0`; NULL for a value \
            of another type, a text such as `7` in quotes among them. NULL if there is nothing, the \
            text is not JSON, or an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "a whole number",
        example: Example {
            sql: r#"SELECT json_get_int('{"score": 7, "words": "7"}', 'score') AS score, json_get_int('{"score": 7, "words": "7"}', 'words') AS words"#,
            result: "
+-------+-------+
| score | words |
+-------+-------+
| 7     |       |
+-------+-------+
",
        },
    },
    return_type: |_| DataType::Int64,
    invoke: |inputs| each::<_, Int64Array>(inputs, |found| json::whole(found?)),
};

/// SQL function `json_get_float`.
pub static JSON_GET_FLOAT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_float",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The number at the end of the steps; NULL for a value of another type, a text such as \
            `0.5` in quotes among them. NULL if there is nothing, the text is not JSON, or an \
            argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "a double",
        example: Example {
            sql: r#"SELECT json_get_float('{"score": 0.85}', 'score') AS score"#,
            result: "
+-------+
| score |
+-------+
| 0.85  |
+-------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke: |inputs| each::<_, Float64Array>(inputs, |found| json::number(found?)),
};

/// SQL function `json_get_bool`.
pub static JSON_GET_BOOL: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_bool",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The truth value at the end of the steps; NULL for a value of another type, a text such \
            as `true` in quotes among them. NULL if there is nothing, the text is not JSON, or an \
            argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "a boolean",
        example: Example {
            sql: r#"SELECT json_get_bool('{"correct": true}', 'correct') AS correct"#,
            result: "
+---------+
| correct |
+---------+
| true    |
+---------+
",
        },
    },
    return_type: |_| DataType::Boolean,
    invoke: |inputs| {
        each::<_, BooleanArray>(inputs, |found| match found? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    },
};
