//! Everything that a fit begins with, whether it is made or read.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::data::batch::Begin;
use crate::data::tokens::Reader;
use crate::graph::ops::Pool;
use crate::model::weights::{Plan, Stored, Weights};

/// How texts become tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// One token for each word, name in dollars or brackets, and mark, with the space before it, from
    /// the training texts; other words are spelled in bytes.
    Words {
        /// Texts whose words are known too, though nothing is learnt from them; they count like
        /// those of training.
        also: Vec<String>,
    },
    /// The content of a `tokenizer.json`, which must have the tokens `<pad>` and `</s>`.
    Json(Vec<u8>),
}

/// Everything that a fit begins with.
pub struct Origin {
    pub plan: Plan,
    pub weights: Weights,
    pub reader: Reader,
    /// What begins and ends an output, if it is written.
    pub writes: Option<Ends>,
    /// Which rows of a text make its vector, if vectors are trained.
    pub pool: Pool,
    /// Most tokens of a text, if there is such a number.
    pub positions: Option<usize>,
    /// `config.json`.
    pub config: Map<String, Value>,
    /// The other files of the checkpoint but the weights.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Tensors that are written as they were read.
    pub untrained: Vec<Stored>,
}

/// What begins and ends every output.
pub struct Ends {
    pub begin: Begin,
    pub end: u32,
}

/// The members of an object of `json!`.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A small file of settings as people read it.
pub fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
