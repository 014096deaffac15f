//! `generate`: what a model writes after a prompt.

use proofmill_engine::request::Request;

use super::generation::{RETURNS, answer, column};
use super::shared::{GENERATION_OPTIONS, MODEL, PROMPT};
use crate::definition::{Doc, Example, FunctionKind};
use crate::model::arguments::Arguments;
use crate::model::definition::ModelDefinition;
use crate::model::error::Failure;
use crate::model::options::{Options, Takes};

/// SQL function `generate`.
pub static GENERATE: ModelDefinition = ModelDefinition {
    doc: Doc {
        name: "generate",
        version: 1,
        kind: FunctionKind::Model,
        description: "What a model writes after a prompt. Answers are recorded by the digest of model, \
            prompt and options: the same request gets the same answer for ever. A failed row fails \
            the query, or with `on_error` 'capture' keeps its error beside NULLs. Allowed in the \
            list after SELECT only. NULL, without a request, \
            if the prompt is NULL.",
        arguments: &[MODEL, PROMPT, GENERATION_OPTIONS],
        returns: RETURNS,
        example: Example {
            sql: "SELECT g.text AS text, g.finish_reason AS finish_reason, g.output_tokens AS output_tokens FROM (SELECT generate('echo', 'copper conducts electricity', {max_tokens: 2}) AS g)",
            result: "
+-----------------+---------------+---------------+
| text            | finish_reason | output_tokens |
+-----------------+---------------+---------------+
| copper conducts | length        | 2             |
+-----------------+---------------+---------------+
",
        },
    },
    options: Takes::Generate,
    request,
    answer,
    column,
};

fn request(
    arguments: &Arguments,
    row: usize,
    options: &Options,
) -> Result<Option<Request>, Failure> {
    let prompt = arguments.prompt(0, row)?;
    Ok(prompt.map(|prompt| Request::Generate(options.generation(prompt))))
}
