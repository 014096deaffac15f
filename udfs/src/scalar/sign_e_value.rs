//! `sign_e_value`: evidence from discordant items that may be looked at every night.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::numbers;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::sign_e_value;

/// SQL function `sign_e_value`.
pub static SIGN_E_VALUE: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "sign_e_value",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "E-value against \"a discordant item favours either system equally\": the mixture of \
            likelihood ratios under Beta(1/2, 1/2) (Grünwald, de Heide and Koolen 2024). If every \
            look brings fresh items and `b` and `c` are the sums over all looks so far, the chance \
            that it ever reaches 1/alpha for equal systems is at most alpha, however often one \
            looks: an alarm at 20 is right at alpha 0.05. E-values of the same items, or of several \
            metrics, are combined by their mean. NULL if an argument is NULL.",
        arguments: &[
            Argument::required("b", Kind::Whole, "Items that only the first system has right."),
            Argument::required("c", Kind::Whole, "Items that only the second system has right."),
        ],
        returns: "a double",
        example: Example {
            sql: "SELECT round(sign_e_value(sum(b), sum(c)), 4) AS e FROM (VALUES (3, 9), (2, 8), (4, 11)) AS nights(b, c)",
            result: "
+-------+
| e     |
+-------+
| 21.75 |
+-------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (b, c) = (inputs.whole(0)?, inputs.whole(1)?);
    numbers(inputs, |row| {
        let Some((b, c)) = b.get(row).zip(c.get(row)) else { return Ok(None) };
        Ok(Some(sign_e_value(inputs.count(0, b)?, inputs.count(1, c)?)))
    })
}
