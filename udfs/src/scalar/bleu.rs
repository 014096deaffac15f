//! `bleu`: sentence BLEU.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::against_texts;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::bleu::{BleuOptions, Smoothing, sentence_bleu};

/// SQL function `bleu`.
pub static BLEU: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "bleu",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Sentence BLEU-4 as sacrebleu's `sentence_bleu`: 13a tokenizer, case kept, \
            effective order, 0 to 100. The mean over sentences is not BLEU: use `corpus_bleu`. \
            NULL if an argument is NULL or there is no reference.",
        arguments: &[
            Argument::required("hypothesis", Kind::Text, "The text to be scored."),
            Argument::required("references", Kind::Texts, "The reference text or a list of them."),
            Argument::optional(
                "smoothing",
                Kind::Choice(Smoothing::NAMES),
                "`exp` (default), `floor`, `add-k` or `none`.",
            ),
            Argument::optional(
                "smoothing_value",
                Kind::ConstantNumber,
                "Value of `floor` (default 0.1) or `add-k` (default 1).",
            ),
        ],
        returns: "a double from 0 to 100",
        example: Example {
            sql: "SELECT round(bleu('the cat sat on the mat', ['a cat sat on the mat', 'the cat is on the mat']), 4) AS bleu",
            result: "
+---------+
| bleu    |
+---------+
| 84.0896 |
+---------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let options = BleuOptions { smoothing: smoothing(inputs, 2)?, ..BleuOptions::SENTENCE };
    against_texts(inputs, |hypothesis, references| sentence_bleu(hypothesis, references, &options))
}

/// The smoothing from the argument at `index` and its value after it.
pub(super) fn smoothing(inputs: &Inputs, index: usize) -> Result<Smoothing> {
    let value = inputs.constant_number(index + 1)?;
    let smoothing = inputs.choice(index, |name| Smoothing::new(name, value))?;
    Ok(smoothing.unwrap_or(Smoothing::Exp))
}
