//! JSON in texts, for answers of models and rows of files. The names are those of `datafusion-functions-json`,
//! which would bring a parser that changes how DataFusion's own crates are built, and a column type (a union) that
//! no table can store; `json_get` gives JSON as text instead.

mod access;
mod extract_json;
mod operators;
mod shape;
mod steps;
mod typed;

pub use access::{JSON_AS_TEXT, JSON_GET};
pub use extract_json::EXTRACT_JSON;
pub use operators::JsonOperators;
pub use shape::{JSON_CONTAINS, JSON_GET_ARRAY, JSON_LENGTH, JSON_OBJECT_KEYS};
pub use typed::{JSON_GET_BOOL, JSON_GET_FLOAT, JSON_GET_INT, JSON_GET_STR};
