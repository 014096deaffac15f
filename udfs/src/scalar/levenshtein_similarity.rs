//! `levenshtein_similarity`: edit distance as a similarity.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::numbers;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::levenshtein::levenshtein_similarity;

/// SQL function `levenshtein_similarity`.
pub static LEVENSHTEIN_SIMILARITY: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "levenshtein_similarity",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "1 - edit distance / length of the longer text, in characters; 1 for two empty \
            texts. NULL if an argument is NULL.",
        arguments: &[
            Argument::required("left", Kind::Text, "A text."),
            Argument::required("right", Kind::Text, "Another text."),
        ],
        returns: "a double from 0 to 1",
        example: Example {
            sql: "SELECT levenshtein_similarity('kitten', 'sitting') AS similarity",
            result: "
+--------------------+
| similarity         |
+--------------------+
| 0.5714285714285714 |
+--------------------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (left, right) = (inputs.text(0)?, inputs.text(1)?);
    numbers(inputs, |row| {
        Ok(left
            .get(row)
            .zip(right.get(row))
            .map(|(left, right)| levenshtein_similarity(left, right)))
    })
}
