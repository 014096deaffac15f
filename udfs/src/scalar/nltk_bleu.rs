//! `nltk_bleu`: sentence BLEU as nltk computes it.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::against_texts;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::nltk_bleu::nltk_bleu;

/// SQL function `nltk_bleu`.
pub static NLTK_BLEU: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "nltk_bleu",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Sentence BLEU-4 as nltk's `sentence_bleu` over white-space tokens, 0 to 1, without \
            smoothing or with method 1. A text without common 4-grams scores about 1e-155 or \
            less, not 0. NULL if an argument is NULL or there is no reference.",
        arguments: &[
            Argument::required("hypothesis", Kind::Text, "The text to be scored."),
            Argument::required("references", Kind::Texts, "The reference text or a list of them."),
            Argument::optional(
                "epsilon",
                Kind::ConstantNumber,
                "Smoothing method 1 with this epsilon; nltk's default is 0.1.",
            ),
        ],
        returns: "a double from 0 to 1",
        example: Example {
            sql: "SELECT round(nltk_bleu('the cat sat on the mat', 'a cat sat on the mat'), 4) AS bleu",
            result: "
+--------+
| bleu   |
+--------+
| 0.7598 |
+--------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let epsilon = inputs.constant_number(2)?;
    if let Some(value) = epsilon.filter(|epsilon| !(*epsilon > 0.0 && epsilon.is_finite())) {
        return inputs.refuse(2, format!("`{value}`; expected a positive number"));
    }
    against_texts(inputs, |hypothesis, references| nltk_bleu(hypothesis, references, epsilon))
}
