//! `wilson_interval`: confidence interval of a proportion.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::outputs::{struct_of_numbers, structs};
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{StatsError, wilson};

/// SQL function `wilson_interval`.
pub static WILSON_INTERVAL: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "wilson_interval",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Wilson score interval of a proportion (Wilson 1927). It stays inside 0 to 1 and is \
            not empty at 0 or n successes. NULL if an argument is NULL or n is 0.",
        arguments: &[
            Argument::required("successes", Kind::Whole, "Number of successes."),
            Argument::required("n", Kind::Whole, "Number of trials."),
            Argument::optional("level", Kind::ConstantNumber, "Confidence level (default 0.95)."),
        ],
        returns: "struct(value, low, high, se)",
        example: Example {
            sql: "SELECT round(w.low, 4) AS low, round(w.high, 4) AS high FROM (SELECT wilson_interval(7, 10) AS w)",
            result: "
+--------+--------+
| low    | high   |
+--------+--------+
| 0.3968 | 0.8922 |
+--------+--------+
",
        },
    },
    return_type: |_| struct_of_numbers(&NAMES),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let level = inputs.constant_number(2)?.unwrap_or(0.95);
    let (successes, trials) = (inputs.whole(0)?, inputs.whole(1)?);
    structs(inputs, NAMES, |row| {
        let Some((successes, n)) = successes.get(row).zip(trials.get(row)) else {
            return Ok(None);
        };
        match wilson(inputs.count(0, successes)?, inputs.count(1, n)?, level) {
            Ok(interval) => Ok(Some([interval.estimate, interval.low, interval.high, interval.se])),
            Err(StatsError::Empty) => Ok(None),
            Err(error @ StatsError::Level(_)) => inputs.refuse(2, error),
            Err(error) => inputs.refuse(0, error),
        }
    })
}

const NAMES: [&str; 4] = ["value", "low", "high", "se"];
