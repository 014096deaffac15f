//! `exact_match`: whether an answer equals a right answer after normalisation.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::BooleanArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::with_texts;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::normalize::{Normalization, normalize};

/// SQL function `exact_match`.
pub static EXACT_MATCH: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "exact_match",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Whether the prediction equals the gold answer, or any of a list of them, after \
            normalisation (SQuAD; Fusion-in-Decoder). Two texts that normalise to nothing are \
            equal. NULL if an argument is NULL or no gold is left.",
        arguments: &[
            Argument::required("prediction", Kind::Text, "The answer to be scored."),
            Argument::required(
                "gold",
                Kind::Texts,
                "The right answer, or a list of right answers of which the best counts.",
            ),
            Argument::optional(
                "normalization",
                Kind::Choice(Normalization::NAMES),
                "`squad` (default), `parlai` or `plain`; see `normalize_text`.",
            ),
        ],
        returns: "a boolean",
        example: Example {
            sql: "SELECT exact_match('The Nirala!', ['Nirala', 'Pizza Hut']) AS em, exact_match('great', 'great!', 'plain') AS plain",
            result: "
+------+-------+
| em   | plain |
+------+-------+
| true | false |
+------+-------+
",
        },
    },
    return_type: |_| DataType::Boolean,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let normalization = inputs.choice(2, str::parse)?.unwrap_or(Normalization::Squad);
    let (prediction, golds) = (inputs.text(0)?, inputs.texts(1)?);
    let mut texts = Vec::new();
    let matches: BooleanArray = (0..inputs.rows)
        .map(|row| {
            let prediction = with_texts(&prediction, &golds, row, &mut texts)?;
            let prediction = normalize(prediction, normalization);
            Some(texts.iter().any(|gold| normalize(gold, normalization) == prediction))
        })
        .collect();
    Ok(Arc::new(matches))
}
