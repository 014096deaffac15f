//! `rouge`: ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::datatypes::Field;
use datafusion::common::Result;

use super::outputs::{PRF, nested, prf, prf_type, structs, with_texts};
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::overlap::Prf;
use crate::text::rouge::{Rouge, rouge_multi};

/// SQL function `rouge`.
pub static ROUGE: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "rouge",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "ROUGE as rouge_score computes it. Tokens are runs of [a-z0-9] after lower-casing: \
            text in other scripts scores 0. ROUGE-Lsum takes lines as sentences. Of several \
            targets, each score takes the one with the best F1. NULL if an argument is NULL or \
            there is no target.",
        arguments: &[
            Argument::required("prediction", Kind::Text, "The text to be scored."),
            Argument::required("target", Kind::Texts, "The reference text or a list of them."),
            Argument::optional(
                "stem",
                Kind::Switch,
                "Whether words of more than three letters are cut to their Porter stem (default false).",
            ),
        ],
        returns: "struct(rouge1, rouge2, rougeL, rougeLsum), each struct(precision, recall, f1)",
        example: Example {
            sql: "SELECT rouge('the cats sat', 'the cat sat', true)['rougeL']['f1'] AS f1",
            result: "
+-----+
| f1  |
+-----+
| 1.0 |
+-----+
",
        },
    },
    return_type: |_| rouge_type(),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let stem = inputs.switch(2, false)?;
    let (prediction, targets) = (inputs.text(0)?, inputs.texts(1)?);
    let mut texts = Vec::new();
    let scores: Vec<Option<Rouge>> = (0..inputs.rows)
        .map(|row| {
            let prediction = with_texts(&prediction, &targets, row, &mut texts)?;
            rouge_multi(prediction, &texts, stem)
        })
        .collect();
    let part = |of: fn(&Rouge) -> Prf| {
        structs(inputs, PRF, |row| Ok(scores[row].as_ref().map(|score| prf(of(score)))))
    };
    let parts = vec![
        part(|score| score.rouge1)?,
        part(|score| score.rouge2)?,
        part(|score| score.rouge_l)?,
        part(|score| score.rouge_lsum)?,
    ];
    nested(&NAMES, parts)
}

const NAMES: [&str; 4] = ["rouge1", "rouge2", "rougeL", "rougeLsum"];

fn rouge_type() -> DataType {
    DataType::Struct(NAMES.iter().map(|name| Field::new(*name, prf_type(), true)).collect())
}
