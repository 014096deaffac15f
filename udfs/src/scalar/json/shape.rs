//! What JSON is made of: `json_length`, `json_contains`, `json_get_array`, `json_object_keys`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use super::steps::{JSON, STEPS, STEPS_OR_NONE, each, values};
use crate::definition::{Doc, Example, FunctionKind};
use crate::scalar::{Inputs, ScalarDefinition};
use crate::text::json;

/// SQL function `json_length`.
pub static JSON_LENGTH: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_length",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The number of items of an array or of keys of an object, equal ones once; NULL for a value of another \
            type. NULL if there is nothing, the text is not JSON, or an argument is NULL.",
        arguments: &[JSON, STEPS_OR_NONE],
        returns: "a whole number",
        example: Example {
            sql: r#"SELECT json_length('{"claims": ["a", "b", "c"]}', 'claims') AS claims"#,
            result: "
+--------+
| claims |
+--------+
| 3      |
+--------+
",
        },
    },
    return_type: |_| DataType::Int64,
    invoke: |inputs| {
        each::<_, Int64Array>(inputs, |found| {
            let found = found?;
            let n = json::items(found).map(Iterator::count);
            n.or_else(|| json::keys(found).map(Iterator::count)).map(|n| n as i64)
        })
    },
};

/// SQL function `json_contains`.
pub static JSON_CONTAINS: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_contains",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "Whether there is a value at the end of the steps, JSON's `null` among them; false if the \
            text is not JSON. NULL if an argument is NULL.",
        arguments: &[JSON, STEPS],
        returns: "a boolean",
        example: Example {
            sql: r#"SELECT json_contains('{"label": null}', 'label') AS label, json_contains('{"label": null}', 'score') AS score"#,
            result: "
+-------+-------+
| label | score |
+-------+-------+
| true  | false |
+-------+-------+
",
        },
    },
    return_type: |_| DataType::Boolean,
    invoke: |inputs| each::<_, BooleanArray>(inputs, |found| Some(found.is_some())),
};

/// SQL function `json_get_array`.
pub static JSON_GET_ARRAY: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_get_array",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The items of the array at the end of the steps, each as JSON: to be unnested. NULL for a \
            value of another type. NULL if there is nothing, the text is not JSON, or an argument is \
            NULL.",
        arguments: &[JSON, STEPS_OR_NONE],
        returns: "list of JSON as text",
        example: Example {
            sql: r#"SELECT unnest(json_get_array('{"claims": [{"ok": true}, 2, "c"]}', 'claims')) AS claim"#,
            result: r#"
+--------------+
| claim        |
+--------------+
| {"ok": true} |
| 2            |
| "c"          |
+--------------+
"#,
        },
    },
    return_type: |_| texts(),
    invoke: |inputs| {
        lists(inputs, |found| json::items(found?).map(|all| all.map(str::to_owned).collect()))
    },
};

/// SQL function `json_object_keys`.
pub static JSON_OBJECT_KEYS: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "json_object_keys",
        version: 2,
        kind: FunctionKind::Scalar,
        description: "The keys of the object at the end of the steps, in their order and equal ones once; NULL for a value of \
            another type. NULL if there is nothing, the text is not JSON, or an argument is NULL.",
        arguments: &[JSON, STEPS_OR_NONE],
        returns: "list of texts",
        example: Example {
            sql: r#"SELECT json_object_keys('{"label": "yes", "score": 7}') AS keys"#,
            result: "
+----------------+
| keys           |
+----------------+
| [label, score] |
+----------------+
",
        },
    },
    return_type: |_| texts(),
    invoke: |inputs| lists(inputs, |found| json::keys(found?).map(Iterator::collect)),
};

fn texts() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
}

/// A list of texts for each row.
fn lists(inputs: &Inputs, of: impl Fn(Option<&str>) -> Option<Vec<String>>) -> Result<ArrayRef> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for found in values(inputs, of)? {
        lists.append_option(found.map(|texts| texts.into_iter().map(Some)));
    }
    Ok(Arc::new(lists.finish()))
}
