//! `levenshtein`: edit distance.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::Int64Array;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::levenshtein::levenshtein;

/// SQL function `levenshtein`.
pub static LEVENSHTEIN: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "levenshtein",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Number of insertions, deletions and substitutions of characters that turn one text \
            into the other. Replaces DataFusion's function of the same name with the same \
            results and types; it is only faster. NULL if an argument is NULL.",
        arguments: &[
            Argument::required("left", Kind::RawText, "A text."),
            Argument::required("right", Kind::RawText, "Another text."),
        ],
        returns: "an integer",
        example: Example {
            sql: "SELECT levenshtein('kitten', 'sitting') AS distance",
            result: "
+----------+
| distance |
+----------+
| 3        |
+----------+
",
        },
    },
    return_type: |given| distance_type(given),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (left, right) = (inputs.text(0)?, inputs.text(1)?);
    let distances = (0..inputs.rows).map(|row| {
        let distance = levenshtein(left.get(row)?, right.get(row)?);
        i64::try_from(distance).ok()
    });
    let distances: Int64Array = distances.collect();
    Ok(cast(&distances, &distance_type(&inputs.types()))?)
}

/// The type of DataFusion's own function: 64 bits for large texts, else 32.
fn distance_type(given: &[DataType]) -> DataType {
    let large = given.contains(&DataType::LargeUtf8) && !given.contains(&DataType::Utf8View);
    if large { DataType::Int64 } else { DataType::Int32 }
}
