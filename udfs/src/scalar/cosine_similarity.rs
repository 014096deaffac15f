//! `cosine_similarity`: cosine of the angle between two vectors.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::numbers;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::cosine::cosine_similarity;

/// SQL function `cosine_similarity`.
pub static COSINE_SIMILARITY: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "cosine_similarity",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Cosine of the angle between two vectors, -1 to 1. NULL if an argument is NULL or \
            holds a NULL, or if a vector is zero: the angle is then undefined.",
        arguments: &[
            Argument::required("left", Kind::Numbers, "A list of numbers."),
            Argument::required("right", Kind::Numbers, "A list of as many numbers."),
        ],
        returns: "a double from -1 to 1",
        example: Example {
            sql: "SELECT cosine_similarity([1.0, 0.0], [0.6, 0.8]) AS cosine",
            result: "
+--------+
| cosine |
+--------+
| 0.6    |
+--------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (left, right) = (inputs.numbers(0)?, inputs.numbers(1)?);
    numbers(inputs, |row| {
        let Some((left, right)) = left.get(row).zip(right.get(row)) else {
            return Ok(None);
        };
        if left.len() != right.len() {
            let (left, right) = (left.len(), right.len());
            return inputs
                .refuse(1, format!("a list of {right} numbers; expected {left} like the first"));
        }
        Ok(cosine_similarity(left, right))
    })
}
