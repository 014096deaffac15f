//! `fuse`: what a model answers after reading many passages (Fusion-in-Decoder).

use proofmill_engine::request::{Prompt, Request};

use super::generation::{RETURNS, answer, column};
use super::shared::{GENERATION_OPTIONS, MODEL};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::model::arguments::{Arguments, Passage};
use crate::model::definition::ModelDefinition;
use crate::model::error::Failure;
use crate::model::options::{Options, Takes};

/// SQL function `fuse`.
pub static FUSE: ModelDefinition = ModelDefinition {
    doc: Doc {
        name: "fuse",
        version: 2,
        kind: FunctionKind::Model,
        description: "What an encoder-decoder model answers after reading each passage alone and all of \
            them together (Fusion-in-Decoder; Izacard and Grave 2021). It reads `question: {question} \
            context: {text}` for each passage, and `question: {question} title: {title} context: \
            {text}` where passages have titles; with the empty question it reads the texts as they are given. `truncate` holds for each passage. Otherwise like \
            `generate`. NULL, without a request, if the question or the list is NULL; an empty list \
            and a NULL passage are errors.",
        arguments: &[
            MODEL,
            Argument::required(
                "question",
                Kind::Text,
                "The question; `''` where the passages hold all that is to be read.",
            ),
            Argument::required(
                "passages",
                Kind::Passages,
                "The passages in the order in which they are read: texts, or structs of a `title` and a `text`.",
            ),
            GENERATION_OPTIONS,
        ],
        returns: RETURNS,
        example: Example {
            sql: "SELECT fuse('echo', 'Is copper a metal?', ['Metals conduct.', 'Copper is one.'])['text'] AS text",
            result: "
+--------------------------------------------------------------------------------------------------------------+
| text                                                                                                         |
+--------------------------------------------------------------------------------------------------------------+
| question: Is copper a metal? context: Metals conduct. | question: Is copper a metal? context: Copper is one. |
+--------------------------------------------------------------------------------------------------------------+
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
    let Some((question, passages)) = arguments.text(0, row).zip(arguments.passages(1, row)) else {
        return Ok(None);
    };
    if passages.is_empty() {
        return Err(Failure::invalid("argument `passages` is empty; expected at least one"));
    }
    let missing = |at| Failure::invalid(format!("passage {} of `passages` is NULL", at + 1));
    let inputs = passages.into_iter().enumerate().map(|(at, passage)| {
        passage.map(|passage| input(question, passage)).ok_or_else(|| missing(at))
    });
    let prompt = Prompt::Passages(inputs.collect::<Result<_, _>>()?);
    Ok(Some(Request::Generate(options.generation(prompt))))
}

fn input(question: &str, Passage { title, text }: Passage) -> String {
    match title {
        _ if question.is_empty() => text.to_owned(),
        Some(title) => format!("question: {question} title: {title} context: {text}"),
        None => format!("question: {question} context: {text}"),
    }
}
