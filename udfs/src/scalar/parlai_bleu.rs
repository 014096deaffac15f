//! `parlai_bleu`: sentence BLEU as ParlAI computes it.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::against_texts;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::nltk_bleu::parlai_bleu;

/// SQL function `parlai_bleu`.
pub static PARLAI_BLEU: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "parlai_bleu",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Sentence BLEU-4 as ParlAI reports it: nltk's over ParlAI-normalised words, \
            smoothing method 1 with epsilon 1e-12, 0 to 1. NULL if an argument is NULL or \
            there is no reference.",
        arguments: &[
            Argument::required("hypothesis", Kind::Text, "The text to be scored."),
            Argument::required("references", Kind::Texts, "The reference text or a list of them."),
        ],
        returns: "a double from 0 to 1",
        example: Example {
            sql: "SELECT round(parlai_bleu('The cat sat on a mat today', 'the cat sat on the mat.'), 6) AS bleu",
            result: "
+---------+
| bleu    |
+---------+
| 0.66874 |
+---------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    against_texts(inputs, parlai_bleu)
}
