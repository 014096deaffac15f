//! `kf1_sets`: overlap of a response with the evidence it should rest on, over sets of words.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::outputs::{PRF, prf, prf_type, structs};
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::overlap::kf1_sets;

/// SQL function `kf1_sets`.
pub static KF1_SETS: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "kf1_sets",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Knowledge F1 over sets (Lian et al. 2019): the different words of a response and of all its evidence \
            snippets together, both without stop words. The definition names neither a list of stop words nor a \
            normalisation: you give the list, and words are those of ParlAI's normalisation. NULL if an argument is NULL.",
        arguments: &[
            Argument::required("response", Kind::Text, "The response."),
            Argument::required("snippets", Kind::Texts, "The evidence: a text or a list of texts."),
            Argument::required("stop_words", Kind::Texts, "Words that do not count."),
        ],
        returns: "struct(precision, recall, f1), each 0 to 1",
        example: Example {
            sql: "SELECT kf1_sets('the drinks, drinks!', ['the drinks are cheap'], ['the', 'are']) AS kf1",
            result: "
+-------------------------------------------------------+
| kf1                                                   |
+-------------------------------------------------------+
| {precision: 1.0, recall: 0.5, f1: 0.6666666666666666} |
+-------------------------------------------------------+
",
        },
    },
    return_type: |_| prf_type(),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (response, snippets, stops) = (inputs.text(0)?, inputs.texts(1)?, inputs.texts(2)?);
    let (mut texts, mut stop_words) = (Vec::new(), Vec::new());
    structs(inputs, PRF, |row| {
        let response = response.get(row).filter(|_| !snippets.is_null(row) && !stops.is_null(row));
        Ok(response.map(|response| {
            snippets.read(row, &mut texts);
            stops.read(row, &mut stop_words);
            prf(kf1_sets(response, texts.iter().copied(), &stop_words))
        }))
    })
}
