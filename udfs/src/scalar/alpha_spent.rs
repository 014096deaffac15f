//! `alpha_spent`: the level of one of many looks at a series.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::numbers;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::alpha_spent;

/// SQL function `alpha_spent`.
pub static ALPHA_SPENT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "alpha_spent",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The level at which to test when a series, such as a nightly comparison, is looked at \
            for the `look`-th time: alpha * 6 / (pi^2 * look^2). The levels of all looks sum to alpha, so \
            identical systems ever raise an alarm with a chance of at most alpha, however the looks \
            depend on each other. NULL if an argument is NULL.",
        arguments: &[
            Argument::required("look", Kind::Whole, "Number of the look, from 1."),
            Argument::optional(
                "alpha",
                Kind::ConstantNumber,
                "Level of the whole series (default 0.05).",
            ),
        ],
        returns: "a double",
        example: Example {
            sql: "SELECT look, round(alpha_spent(look), 5) AS level FROM (VALUES (1), (2), (7)) AS t(look)",
            result: "
+------+---------+
| look | level   |
+------+---------+
| 1    | 0.0304  |
| 2    | 0.0076  |
| 7    | 0.00062 |
+------+---------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let look = inputs.whole(0)?;
    let alpha = inputs.constant_number(1)?.unwrap_or(0.05);
    if !(0.0..=1.0).contains(&alpha) {
        return inputs.refuse(1, format!("`{alpha}`; expected a number from 0 to 1"));
    }
    numbers(inputs, |row| match look.get(row) {
        None => Ok(None),
        Some(look) => match alpha_spent(alpha, inputs.count(0, look)?) {
            None => inputs.refuse(0, format!("`{look}`; looks are counted from 1")),
            level => Ok(level),
        },
    })
}
