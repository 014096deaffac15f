//! `embed`: the vector of a text.

use proofmill_engine::options::truncation;
use proofmill_engine::request::{Embed, Request};

use super::shared::{MODEL, READING_OPTIONS};
use super::vector::{RETURNS, answer, column};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::model::arguments::Arguments;
use crate::model::definition::ModelDefinition;
use crate::model::error::Failure;
use crate::model::options::{Options, Takes};

/// SQL function `embed`.
pub static EMBED: ModelDefinition = ModelDefinition {
    doc: Doc {
        name: "embed",
        version: 1,
        kind: FunctionKind::Model,
        description: "The vector of a text, pooled and normalised as the model's folder says: two of them compare with `cosine_similarity`. Recorded and failing like `generate`. NULL, without a request, if the text is NULL.",
        arguments: &[
            MODEL,
            Argument::required("text", Kind::Text, "The text that the model reads."),
            READING_OPTIONS,
        ],
        returns: RETURNS,
        example: Example {
            sql: "SELECT e.vector AS vector, e.tokens AS tokens FROM (SELECT embed('echo', 'copper conducts') AS e)",
            result: "
+-------------+--------+
| vector      | tokens |
+-------------+--------+
| [15.0, 2.0] | 2      |
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
    let embed = |text: &str| Embed {
        text: text.to_owned(),
        truncate: truncation(options.embed.truncate, options.embed.truncation_side),
    };
    Ok(arguments.text(0, row).map(|text| Request::Embed(embed(text))))
}
