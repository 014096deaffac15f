//! `kf1`: overlap of a response with the evidence it should rest on.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::outputs::{PRF, prf, prf_type, structs};
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::overlap::{Aggregate, kf1};

/// SQL function `kf1`.
pub static KF1: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "kf1",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Knowledge F1 (ParlAI): overlap of the words of a response with its evidence \
            snippets, ParlAI normalisation. `concat` joins the snippets with spaces; `max` \
            compares with each and maximises precision, recall and F1 separately. An empty \
            list of snippets scores 0. NULL if an argument is NULL.",
        arguments: &[
            Argument::required("response", Kind::Text, "The response."),
            Argument::required("snippets", Kind::Texts, "The evidence: a text or a list of texts."),
            Argument::optional(
                "aggregate",
                Kind::Choice(Aggregate::NAMES),
                "`concat` (default) or `max`.",
            ),
        ],
        returns: "struct(precision, recall, f1), each 0 to 1",
        example: Example {
            sql: "SELECT kf1('cheap drinks', ['the drinks are priced well', 'cheap'], 'max') AS kf1",
            result: "
+-------------------------------------------------------+
| kf1                                                   |
+-------------------------------------------------------+
| {precision: 0.5, recall: 1.0, f1: 0.6666666666666666} |
+-------------------------------------------------------+
",
        },
    },
    return_type: |_| prf_type(),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let aggregate = inputs.choice(2, str::parse)?.unwrap_or(Aggregate::Concat);
    let (response, snippets) = (inputs.text(0)?, inputs.texts(1)?);
    let mut texts = Vec::new();
    structs(inputs, PRF, |row| {
        Ok(response.get(row).filter(|_| !snippets.is_null(row)).map(|response| {
            snippets.read(row, &mut texts);
            prf(kf1(response, texts.iter().copied(), aggregate))
        }))
    })
}
