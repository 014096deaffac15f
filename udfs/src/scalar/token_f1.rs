//! `token_f1`: overlap of the words of an answer with those of a right answer.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::outputs::{PRF, prf, prf_type, structs, with_texts};
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::normalize::Normalization;
use crate::text::overlap::{Bag, Prf};

/// SQL function `token_f1`.
pub static TOKEN_F1: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "token_f1",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Token F1 of the prediction against the gold answer after normalisation; of a list \
            of golds the one with the best F1. Two texts without words score 1 under `squad` \
            and 0 otherwise. NULL if an argument is NULL or no gold is left.",
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
        returns: "struct(precision, recall, f1), each 0 to 1",
        example: Example {
            sql: "SELECT token_f1('a big red dog', 'the red dog')['f1'] AS f1",
            result: "
+-----+
| f1  |
+-----+
| 0.8 |
+-----+
",
        },
    },
    return_type: |_| prf_type(),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let normalization = inputs.choice(2, str::parse)?.unwrap_or(Normalization::Squad);
    let (prediction, golds) = (inputs.text(0)?, inputs.texts(1)?);
    let mut texts = Vec::new();
    structs(inputs, PRF, |row| {
        Ok(with_texts(&prediction, &golds, row, &mut texts).map(|prediction| {
            let prediction = Bag::new(prediction, normalization);
            let better = |best: Prf, other: Prf| if other.f1 > best.f1 { other } else { best };
            let scores = texts.iter().map(|gold| prediction.f1(&Bag::new(gold, normalization)));
            prf(scores.reduce(better).unwrap_or(Prf::ZERO))
        }))
    })
}
