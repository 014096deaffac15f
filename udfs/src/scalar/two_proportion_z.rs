//! `two_proportion_z`: the z test of two independent proportions.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::outputs::{struct_of_numbers, structs};
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{StatsError, two_proportion_z};

/// SQL function `two_proportion_z`.
pub static TWO_PROPORTION_Z: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "two_proportion_z",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Unpaired z test of two proportions, two-sided, unpooled variance. `diff` is the second \
            proportion less the first. For systems on different items; of two systems on the same items it \
            finds too little: use `mcnemar`. Equal proportions give z = 0 and p = 1. NULL if an argument is NULL or \
            a number of trials is 0.",
        arguments: &[
            Argument::required("first_successes", Kind::Whole, "Successes of the first."),
            Argument::required("first_n", Kind::Whole, "Trials of the first."),
            Argument::required("second_successes", Kind::Whole, "Successes of the second."),
            Argument::required("second_n", Kind::Whole, "Trials of the second."),
        ],
        returns: "struct(diff, z, p)",
        example: Example {
            sql: "SELECT round(t.diff, 3) AS diff, round(t.z, 6) AS z, round(t.p, 6) AS p FROM (SELECT two_proportion_z(363, 500, 385, 500) AS t)",
            result: "
+-------+----------+----------+
| diff  | z        | p        |
+-------+----------+----------+
| 0.044 | 1.604464 | 0.108612 |
+-------+----------+----------+
",
        },
    },
    return_type: |_| struct_of_numbers(&NAMES),
    invoke,
};

const NAMES: [&str; 3] = ["diff", "z", "p"];

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let columns = [inputs.whole(0)?, inputs.whole(1)?, inputs.whole(2)?, inputs.whole(3)?];
    structs(inputs, NAMES, |row| {
        let mut counts = [0; 4];
        for (index, (column, count)) in columns.iter().zip(&mut counts).enumerate() {
            let Some(value) = column.get(row) else { return Ok(None) };
            *count = inputs.count(index, value)?;
        }
        let [first, first_n, second, second_n] = counts;
        for (index, successes, n) in [(0, first, first_n), (2, second, second_n)] {
            if n > 0 && successes > n {
                return inputs.refuse(index, StatsError::Successes { successes, n });
            }
        }
        if first_n == 0 || second_n == 0 {
            return Ok(None);
        }
        let (p1, p2) = (first as f64 / first_n as f64, second as f64 / second_n as f64);
        match two_proportion_z(p1, first_n, p2, second_n) {
            Ok(test) => Ok(Some([p2 - p1, test.z, test.p])),
            Err(error) => inputs.refuse(0, error),
        }
    })
}
