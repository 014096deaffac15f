//! `score_choices`: which of several texts a model is likeliest to say after a prompt.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use proofmill_engine::options::truncation;
use proofmill_engine::request::{Request, Score, Scored};
use proofmill_settings::options::Normalize;

use super::score::scores;
use super::shared::{MODEL, PROMPT, before};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::model::arguments::{Arguments, Passage};
use crate::model::columns::{Answered, Row, answer_type, answers, field, fields_of};
use crate::model::definition::ModelDefinition;
use crate::model::error::Failure;
use crate::model::options::{Options, Takes};
use crate::model::shape::Shape;

/// SQL function `score_choices`.
pub static SCORE_CHOICES: ModelDefinition = ModelDefinition {
    doc: Doc {
        name: "score_choices",
        version: 1,
        kind: FunctionKind::Model,
        description: "How likely a model is to say each of several texts after a prompt, and which it is \
            likeliest to say: `best` counts from 0, and of equals the first wins. `probability` is \
            the softmax over the choices of what `normalize` names. Recorded and failing like \
            `generate`. NULL, without a request, if the prompt or the list is NULL; an empty list \
            and a NULL choice are errors.",
        arguments: &[
            MODEL,
            PROMPT,
            Argument::required("choices", Kind::TextList, "The texts that it may say."),
            Argument::optional(
                "options",
                Kind::Options,
                "A struct or a JSON object as text: `normalize` (what is compared: 'none', the \
                 log-probability, default; 'tokens' or 'bytes', the log-probability per token or byte \
                 of the choice), `include_eos` (whether the end of the text is scored too, default \
                 false), `truncate`, `truncation_side` ('right' or 'left'), `on_error` ('fail' or \
                 'capture'), `replay` ('first' or 'only').",
            ),
        ],
        returns: "struct(best, choices: list of struct(choice, logprob, tokens, is_greedy, probability), \
            prompt_tokens, request_digest, error: struct(class, message))",
        example: Example {
            sql: "SELECT s.best AS best, s.choices[1]['choice'] AS first, s.choices[1]['logprob'] AS logprob FROM (SELECT score_choices('echo', 'Copper conducts', ['electricity', 'heat']) AS s)",
            result: "
+------+-------------+---------+
| best | first       | logprob |
+------+-------------+---------+
| 1    | electricity | -11.0   |
+------+-------------+---------+
",
        },
    },
    options: Takes::ScoreChoices,
    request,
    answer,
    column,
};

fn request(
    arguments: &Arguments,
    row: usize,
    options: &Options,
) -> Result<Option<Request>, Failure> {
    let Some((prompt, choices)) = arguments.prompt(0, row)?.zip(arguments.passages(1, row)) else {
        return Ok(None);
    };
    if choices.is_empty() {
        return Err(Failure::invalid("argument `choices` is empty; expected at least one"));
    }
    let choice = |(at, choice): (usize, Option<_>)| match choice {
        None => Err(Failure::invalid(format!("choice {} of `choices` is NULL", at + 1))),
        Some(Passage { text: "", .. }) if options.score.normalize == Some(Normalize::Bytes) => {
            Err(Failure::invalid(format!(
                "choice {} of `choices` is empty, and `normalize` divides by its bytes",
                at + 1
            )))
        }
        Some(choice) => Ok(choice.text.to_owned()),
    };
    let (prompt, messages) = before(prompt);
    Ok(Some(Request::Score(Score {
        prompt,
        messages,
        truncate: truncation(options.score.truncate, options.score.truncation_side),
        continuations: choices.into_iter().enumerate().map(choice).collect::<Result<_, _>>()?,
        include_eos: options.score.include_eos.unwrap_or(false),
        logprobs: false,
        prompt_logprobs: false,
    })))
}

fn answer(_shape: Shape) -> DataType {
    answer_type(vec![
        field("best", DataType::Int64),
        field("choices", DataType::List(choices_field().into())),
        field("prompt_tokens", DataType::Int64),
    ])
}

fn choices_field() -> Field {
    Field::new_list_field(choice_type(), true)
}

fn choice_type() -> DataType {
    let fields = [
        field("choice", DataType::Utf8),
        field("logprob", DataType::Float64),
        field("tokens", DataType::Int64),
        field("is_greedy", DataType::Boolean),
        field("probability", DataType::Float64),
    ];
    DataType::Struct(fields.into_iter().collect())
}

fn column(rows: &[Row], shape: Shape) -> Result<ArrayRef> {
    let compared: Vec<Option<Compared>> =
        rows.iter().map(|row| row.answered().map(Compared::new)).collect();
    let best = compared.iter().map(|row| row.as_ref().map(|row| row.best as i64));
    let prompts =
        rows.iter().map(|row| row.answered().map(|row| i64::from(row.answer.prompt_tokens)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(best.collect::<Int64Array>()),
        choices(&compared)?,
        Arc::new(prompts.collect::<Int64Array>()),
    ];
    Ok(Arc::new(answers(answer(shape), columns, rows.iter())?))
}

/// The choices of a row, compared.
struct Compared<'a> {
    texts: &'a [String],
    scores: &'a [Scored],
    probabilities: Vec<f64>,
    best: usize,
}

impl<'a> Compared<'a> {
    fn new(answered: &'a Answered) -> Self {
        let texts: &[String] = match answered.request.as_ref() {
            Request::Score(score) => &score.continuations,
            Request::Generate(_)
            | Request::Embed(_)
            | Request::Hidden(_)
            | Request::Classify(_) => &[],
        };
        let scores = scores(answered);
        let value = |(text, score): (&String, &Scored)| match answered
            .options
            .score
            .normalize
            .unwrap_or_default()
        {
            Normalize::None => score.logprob,
            Normalize::Tokens => score.logprob / f64::from(score.tokens),
            Normalize::Bytes => score.logprob / text.len() as f64,
        };
        let values: Vec<f64> = texts.iter().zip(scores).map(value).collect();
        let best = first_largest(&values);
        let largest = values.get(best).copied().unwrap_or_default();
        let weights: Vec<f64> = values.iter().map(|value| (value - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let probabilities = weights.iter().map(|weight| weight / sum).collect();
        Self { texts, scores, probabilities, best }
    }
}

fn first_largest(values: &[f64]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best
}

fn choices(compared: &[Option<Compared>]) -> Result<ArrayRef> {
    let rows = || compared.iter().flatten();
    let texts: StringArray = rows().flat_map(|row| row.texts).map(Some).collect();
    let scores = || rows().flat_map(|row| row.scores);
    let probabilities = rows().flat_map(|row| row.probabilities.iter().copied());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(texts),
        Arc::new(Float64Array::from_iter_values(scores().map(|one| one.logprob))),
        Arc::new(Int64Array::from_iter_values(scores().map(|one| i64::from(one.tokens)))),
        Arc::new(scores().map(|one| Some(one.is_greedy)).collect::<BooleanArray>()),
        Arc::new(Float64Array::from_iter_values(probabilities)),
    ];
    let structs = StructArray::try_new(fields_of(choice_type()), columns, None)?;
    let lengths = compared.iter().map(|row| row.as_ref().map_or(0, |row| row.scores.len()));
    let offsets = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let valid: NullBuffer = compared.iter().map(Option::is_some).collect::<Vec<bool>>().into();
    let item = Arc::new(choices_field());
    Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(structs), Some(valid))?))
}
