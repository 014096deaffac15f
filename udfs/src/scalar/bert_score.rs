//! `bert_score`: two texts compared by the vectors of their tokens.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::outputs::{PRF, prf, prf_type, structs};
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::bert_score::bert_score;

/// SQL function `bert_score`.
pub static BERT_SCORE: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "bert_score",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "BERTScore (Zhang et al. 2020) of two texts, given the vectors of their tokens, such as those of \
            `hidden(model, text, {all_tokens: true, layer: n})`: each token is compared with the nearest of the other text, by cosine; \
            without weights (no-idf) and without rescaling. The model and its layer decide what a score means: name them beside it. Without \
            tokens 0. NULL if an argument, a vector or a number is NULL, or a vector has the length 0.",
        arguments: &[
            Argument::required("candidate", Kind::Vectors, "Vectors of the candidate's tokens."),
            Argument::required("reference", Kind::Vectors, "Vectors of the reference's tokens."),
        ],
        returns: "struct(precision, recall, f1), each -1 to 1",
        example: Example {
            sql: "SELECT bert_score([[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0]]) AS score",
            result: "
+------------------------------------------------------+
| score                                                |
+------------------------------------------------------+
| {precision: 0.8, recall: 1.0, f1: 0.888888888888889} |
+------------------------------------------------------+
",
        },
    },
    return_type: |_| prf_type(),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (candidate, reference) = (inputs.vectors(0)?, inputs.vectors(1)?);
    structs(inputs, PRF, |row| {
        let both = candidate.get(row).zip(reference.get(row));
        Ok(both.and_then(|(candidate, reference)| bert_score(&candidate, &reference)).map(prf))
    })
}
