//! `hidden`: hidden states of a text, of the last token behind the last layer if nothing else is said.

use proofmill_engine::options::hidden;
use proofmill_engine::request::Request;

use super::shared::MODEL;
use super::vector::{answer, column};
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
        description: "Hidden states of a text: of the last token after the model's final norm (what PGRA's reranker reads), or of another layer and of other tokens, as the options say. Recorded and failing like `generate`. NULL, without a request, if the text is NULL.",
        arguments: &[
            MODEL,
            Argument::required("text", Kind::Text, "The text that the model reads."),
            Argument::optional(
                "options",
                Kind::Options,
                "A struct or a JSON object as text: `layer` (0 is the embedding, -1 the last and the default, as \
                 transformers numbers `hidden_states`), `pool` ('last', 'first' or 'mean' of the tokens), \
                 `all_tokens` (a vector for each token), `truncate`, `truncation_side` ('right' or 'left'), \
                 `on_error` ('fail' or 'capture'), `replay` ('first' or 'only').",
            ),
        ],
        returns: "struct(vector, tokens, request_digest, error: struct(class, message)); with vectors: \
            list(list(float32)) instead of `vector` where `options` names `all_tokens`",
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
    options: Takes::Hidden,
    request,
    answer,
    column,
};

fn request(
    arguments: &Arguments,
    row: usize,
    options: &Options,
) -> Result<Option<Request>, Failure> {
    let text = arguments.text(0, row);
    Ok(text.map(|text| Request::Hidden(hidden(&options.hidden, text.to_owned()))))
}
