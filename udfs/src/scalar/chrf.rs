//! `chrf`: sentence chrF and chrF++.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::against_texts;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::chrf::{WORD_ORDER_MAX, sentence_chrf};

/// SQL function `chrf`.
pub static CHRF: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "chrf",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Sentence chrF as sacrebleu's `sentence_chrf`: character n-grams up to 6, beta 2, 0 \
            to 100; chrF++ with word order 2. Of several references the best counts. NULL if \
            an argument is NULL or there is no reference.",
        arguments: &[
            Argument::required("hypothesis", Kind::Text, "The text to be scored."),
            Argument::required("references", Kind::Texts, "The reference text or a list of them."),
            Argument::optional(
                "word_order",
                Kind::ConstantWhole,
                "Longest word n-gram: 0 (default) is chrF, 2 is chrF++.",
            ),
        ],
        returns: "a double from 0 to 100",
        example: Example {
            sql: "SELECT round(chrf('the cat sat', 'the cat sits'), 4) AS chrf, round(chrf('the cat sat', 'the cat sits', 2), 4) AS chrf_pp",
            result: "
+---------+---------+
| chrf    | chrf_pp |
+---------+---------+
| 61.0345 | 60.3941 |
+---------+---------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let word_order = inputs.constant_whole(2, 0, WORD_ORDER_MAX as i64)?;
    against_texts(inputs, |hypothesis, references| {
        sentence_chrf(hypothesis, references, word_order)
    })
}
