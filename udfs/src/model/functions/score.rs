//! `score`: how likely a model is to say a text after a prompt.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use proofmill_engine::options::truncation;
use proofmill_engine::request::{Body, Request, Score, Scored, TokenLogprob};

use super::shared::{MODEL, PROMPT, before};
use super::token_logprobs::{token_logprobs_column, token_logprobs_type};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::model::arguments::Arguments;
use crate::model::columns::{Answered, Row, answer_type, answers, field};
use crate::model::definition::ModelDefinition;
use crate::model::error::Failure;
use crate::model::options::{Options, Takes};
use crate::model::shape::Shape;

/// SQL function `score`.
pub static SCORE: ModelDefinition = ModelDefinition {
    doc: Doc {
        name: "score",
        version: 1,
        kind: FunctionKind::Model,
        description: "How likely a model is to say a text after a prompt: the sum of the natural \
            log-probabilities of its tokens, their number, and whether greedy decoding would say \
            just this. Recorded and failing like `generate`. NULL, without a request, if an \
            argument other than the options is NULL.",
        arguments: &[
            MODEL,
            PROMPT,
            Argument::required("continuation", Kind::Text, "The text that it may say."),
            Argument::optional(
                "options",
                Kind::Options,
                "A struct or a JSON object as text: `include_eos` (whether the end of the text is scored \
                 too, default false), `logprobs` and `prompt_logprobs` (whether each token of the continuation, and of \
                 the prompt, is told, default false), `truncate`, `truncation_side` ('right' or 'left'), `on_error` \
                 ('fail' or 'capture'), `replay` ('first' or 'only').",
            ),
        ],
        returns: "struct(logprob, tokens, is_greedy, prompt_tokens, request_digest, error: struct(class, message)); \
            with logprobs and prompt_logprobs: list(struct(id, text, offset, logprob)) behind \
            `prompt_tokens` where `options` names them",
        example: Example {
            sql: "SELECT s.logprob AS logprob, s.tokens AS tokens FROM (SELECT score('echo', 'Copper conducts', 'electricity') AS s)",
            result: "
+---------+--------+
| logprob | tokens |
+---------+--------+
| -11.0   | 1      |
+---------+--------+
",
        },
    },
    options: Takes::Score,
    request,
    answer,
    column,
};

fn request(
    arguments: &Arguments,
    row: usize,
    options: &Options,
) -> Result<Option<Request>, Failure> {
    let texts = arguments.prompt(0, row)?.zip(arguments.text(1, row));
    Ok(texts.map(|(prompt, continuation)| {
        let (prompt, messages) = before(prompt);
        Request::Score(Score {
            prompt,
            messages,
            truncate: truncation(options.score.truncate, options.score.truncation_side),
            continuations: vec![continuation.to_owned()],
            include_eos: options.score.include_eos.unwrap_or(false),
            logprobs: options.score.logprobs.unwrap_or(false),
            prompt_logprobs: options.score.prompt_logprobs.unwrap_or(false),
        })
    }))
}

fn answer(shape: Shape) -> DataType {
    let logprobs = [("logprobs", shape.logprobs), ("prompt_logprobs", shape.prompt_logprobs)];
    let logprobs = logprobs
        .into_iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| field(name, token_logprobs_type()));
    let own = [
        field("logprob", DataType::Float64),
        field("tokens", DataType::Int64),
        field("is_greedy", DataType::Boolean),
        field("prompt_tokens", DataType::Int64),
    ];
    answer_type(own.into_iter().chain(logprobs).collect())
}

fn column(rows: &[Row], shape: Shape) -> Result<ArrayRef> {
    let answered = || rows.iter().map(Row::answered);
    let scored = || answered().map(|row| row.and_then(|row| scores(row).first()));
    let logprobs = scored().map(|one| one.map(|one| one.logprob));
    let tokens = scored().map(|one| one.map(|one| i64::from(one.tokens)));
    let greedy = scored().map(|one| one.map(|one| one.is_greedy));
    let prompts = answered().map(|row| row.map(|row| i64::from(row.answer.prompt_tokens)));
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(logprobs.collect::<Float64Array>()),
        Arc::new(tokens.collect::<Int64Array>()),
        Arc::new(greedy.collect::<BooleanArray>()),
        Arc::new(prompts.collect::<Int64Array>()),
    ];
    let of_tokens = |read: fn(&Scored) -> &Option<Vec<TokenLogprob>>| {
        token_logprobs_column(scored().map(move |one| Some((read(one?).as_deref()?, 0))))
    };
    if shape.logprobs {
        columns.push(of_tokens(|one| &one.logprobs)?);
    }
    if shape.prompt_logprobs {
        columns.push(of_tokens(|one| &one.prompt_logprobs)?);
    }
    Ok(Arc::new(answers(answer(shape), columns, rows.iter())?))
}

pub(super) fn scores(answered: &Answered) -> &[Scored] {
    match &answered.answer.body {
        Body::Scores(scores) => scores,
        Body::Generations(_) | Body::Vector(_) | Body::Vectors(_) | Body::Classes(_) => &[],
    }
}
