//! `classify`: the class of a text or of a pair of texts, by a model that has a head for it.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Int64Array, ListArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use proofmill_engine::options::truncation;
use proofmill_engine::request::{Body, ClassScore, Classify, Request};

use super::shared::{MODEL, READING_OPTIONS};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::model::arguments::Arguments;
use crate::model::columns::{Answered, Row, answer_type, answers, field, fields_of};
use crate::model::definition::ModelDefinition;
use crate::model::error::Failure;
use crate::model::options::{Options, Takes};
use crate::model::shape::Shape;

/// SQL function `classify`.
pub static CLASSIFY: ModelDefinition = ModelDefinition {
    doc: Doc {
        name: "classify",
        version: 1,
        kind: FunctionKind::Model,
        description: "The class of a text, or of a pair of texts that are read together (cross-encoders: a \
            question and a passage, a premise and a hypothesis), by a model with a head for it. `label` is the class \
            with the largest logit, the first of equals; `probability` and `logit` are its, and `scores` are \
            those of all classes in the model's order. Probabilities are those of transformers' pipeline: softmax, or sigmoid for \
            each class alone where the model says so or has one class; NULL where it is a regression, whose value is \
            the logit. Recorded and failing like `generate`. NULL, without a request, if the text or the pair is NULL; a \
            pair that is left out, or the constant NULL, is none.",
        arguments: &[
            MODEL,
            Argument::required("text", Kind::Text, "The text that the model reads."),
            Argument::optional(
                "pair",
                Kind::Text,
                "The text that is read beside it, if any. `truncate` holds for both together: the longer one loses tokens \
                 until both are as long, then both.",
            ),
            READING_OPTIONS,
        ],
        returns: "struct(label, probability, logit, scores: list(struct(label, probability, logit)), tokens, \
            truncated, request_digest, error: struct(class, message))",
        example: Example {
            sql: "SELECT c.label AS label, c.logit AS logit, c.tokens AS tokens FROM (SELECT classify('echo', 'copper conducts', 'metals conduct') AS c)",
            result: "
+-------+-------+--------+
| label | logit | tokens |
+-------+-------+--------+
| long  | 29.0  | 4      |
+-------+-------+--------+
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
    let (text, pair) = (arguments.text(0, row), arguments.text(1, row));
    let Some(text) = text.filter(|_| pair.is_some() || !arguments.is_given(1)) else {
        return Ok(None);
    };
    Ok(Some(Request::Classify(Classify {
        text: text.to_owned(),
        pair: pair.map(str::to_owned),
        truncate: truncation(options.embed.truncate, options.embed.truncation_side),
    })))
}

fn answer(_shape: Shape) -> DataType {
    answer_type(vec![
        field("label", DataType::Utf8),
        field("probability", DataType::Float32),
        field("logit", DataType::Float32),
        field("scores", DataType::List(item().into())),
        field("tokens", DataType::Int64),
        field("truncated", DataType::Boolean),
    ])
}

fn item() -> Field {
    let fields = [
        field("label", DataType::Utf8),
        field("probability", DataType::Float32),
        field("logit", DataType::Float32),
    ];
    Field::new_list_field(DataType::Struct(fields.into_iter().collect()), true)
}

fn column(rows: &[Row], shape: Shape) -> Result<ArrayRef> {
    let answered = || rows.iter().map(Row::answered);
    let best = || answered().map(|row| row.and_then(|row| best(classes(row))));
    let all = || answered().flatten().flat_map(classes);
    let lengths = answered().map(|row| row.map_or(0, |row| classes(row).len()));
    let lengths = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let valid: NullBuffer = answered().map(|row| row.is_some()).collect::<Vec<_>>().into();
    let scores =
        StructArray::try_new(fields_of(item().data_type().clone()), parts(all().map(Some)), None)?;
    let mut columns = parts(best());
    let tokens = answered().map(|row| row.map(|row| i64::from(row.answer.prompt_tokens)));
    let truncated = answered().map(|row| row.map(|row| row.answer.prompt_truncated));
    columns.extend([
        Arc::new(ListArray::try_new(item().into(), lengths, Arc::new(scores), Some(valid))?)
            as ArrayRef,
        Arc::new(tokens.collect::<Int64Array>()),
        Arc::new(truncated.collect::<BooleanArray>()),
    ]);
    Ok(Arc::new(answers(answer(shape), columns, rows.iter())?))
}

/// Label, probability and logit of classes.
fn parts<'a>(classes: impl Iterator<Item = Option<&'a ClassScore>> + Clone) -> Vec<ArrayRef> {
    let labels = classes.clone().map(|one| one.map(|one| one.label.as_str()));
    let probabilities = classes.clone().map(|one| one.and_then(|one| one.probability));
    let logits = classes.map(|one| one.map(|one| one.logit));
    vec![
        Arc::new(labels.collect::<StringArray>()),
        Arc::new(probabilities.collect::<Float32Array>()),
        Arc::new(logits.collect::<Float32Array>()),
    ]
}

/// The class with the largest logit; of equals the first.
fn best(classes: &[ClassScore]) -> Option<&ClassScore> {
    classes.iter().reduce(|best, one| if one.logit > best.logit { one } else { best })
}

fn classes(answered: &Answered) -> &[ClassScore] {
    match &answered.answer.body {
        Body::Classes(classes) => classes,
        Body::Generations(_) | Body::Scores(_) | Body::Vector(_) | Body::Vectors(_) => &[],
    }
}
