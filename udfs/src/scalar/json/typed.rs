//! Values of one type out of JSON: `json_get_str`, `json_get_int`, `json_get_float`, `json_get_bool`.

use datafusion::arrow::datatypes::DataType;
use datafusion_functions_json::udfs::{
    json_get_bool_udf, json_get_float_udf, json_get_int_udf, json_get_str_udf,
};

use super::steps::{JSON, STEPS, call};
use crate::definition::{Doc, Example, FunctionKind};
use crate::scalar::ScalarDefinition;

/// SQL function `json_get_str`.
pub static JSON_GET_STR: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_str",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The text at the end of the steps; NULL for a value of another type. NULL if there is \
            nothing, the text is not JSON, or an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "text",
        example: Example {
            sql: r#"SELECT json_get_str('{"label": "yes", "score": 7}', 'label') AS label, json_get_str('{"label": "yes", "score": 7}', 'score') AS score"#,
            result: "
EXAMPLE
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke: |inputs| call(inputs, &json_get_str_udf(), &DataType::Utf8),
};

/// SQL function `json_get_int`.
pub static JSON_GET_INT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_int",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The whole number at the end of the steps, also one written like `7.0`; NULL for a value \
            of another type, `\"7\"` among them. NULL if there is nothing, the text is not JSON, or \
            an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "a whole number",
        example: Example {
            sql: r#"SELECT json_get_int('{"score": 7, "words": "7"}', 'score') AS score, json_get_int('{"score": 7, "words": "7"}', 'words') AS words"#,
            result: "
EXAMPLE
",
        },
    },
    return_type: |_| DataType::Int64,
    invoke: |inputs| call(inputs, &json_get_int_udf(), &DataType::Int64),
};

/// SQL function `json_get_float`.
pub static JSON_GET_FLOAT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_float",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The number at the end of the steps; NULL for a value of another type, `\"0.5\"` among \
            them. NULL if there is nothing, the text is not JSON, or an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "a double",
        example: Example {
            sql: r#"SELECT json_get_float('{"score": 0.85}', 'score') AS score"#,
            result: "
EXAMPLE
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke: |inputs| call(inputs, &json_get_float_udf(), &DataType::Float64),
};

/// SQL function `json_get_bool`.
pub static JSON_GET_BOOL: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_bool",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The truth value at the end of the steps; NULL for a value of another type, `\"true\"` \
            among them. NULL if there is nothing, the text is not JSON, or an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "a boolean",
        example: Example {
            sql: r#"SELECT json_get_bool('{"correct": true}', 'correct') AS correct"#,
            result: "
EXAMPLE
",
        },
    },
    return_type: |_| DataType::Boolean,
    invoke: |inputs| call(inputs, &json_get_bool_udf(), &DataType::Boolean),
};
