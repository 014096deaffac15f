//! `hidden`: the last hidden state of a text's last token.

use proofmill_engine::request::Request;

use super::shared::{MODEL, READING_OPTIONS};
use super::vector::{RETURNS, answer, column, embed};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::model::arguments::Arguments;
use crate::model::definition::ModelDefinition;
use crate::model::error::Failure;
use crate::model::options::{Options, Takes};

/// SQL function `hidden`.
pub static HIDDEN: ModelDefinition = ModelDefinition {
    doc: Doc {
        name: "hidden",
        version: 1,
        kind: FunctionKind::Model,
        description: "The last hidden state of a text's last token, after the model's final norm (what PGRA's reranker reads). Recorded and failing like `generate`. NULL, without a request, if the text is NULL.",
        arguments: &[
            MODEL,
            Argument::required("text", Kind::Text, "The text that the model reads."),
            READING_OPTIONS,
        ],
        returns: RETURNS,
        example: Example {
            sql: "SELECT e.vector AS vector, e.tokens AS tokens FROM (SELECT hidden('echo', 'copper conducts') AS e)",
            result: "
+-------------+--------+
| vector      | tokens |
+-------------+--------+
| [2.0, 15.0] | 2      |
+-------------+--------+
",
        },
    },
    options: Takes::Embed,
    request,
    answer,
    column,
};

fn request(
    arguments: &Arguments,
    row: usize,
    options: &Options,
) -> Result<Option<Request>, Failure> {
    Ok(embed(arguments, row, options).map(Request::Hidden))
}
