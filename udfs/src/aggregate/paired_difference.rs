//! `paired_difference`: difference of two systems on the same items.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, struct_of, struct_type};
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{PairedDifference, paired_difference};

/// SQL aggregate `paired_difference`.
pub static PAIRED_DIFFERENCE: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "paired_difference",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Mean of the item-wise differences first - second with a normal interval. Positive: \
            the first system is better. Without any difference `p` is 1. Of one row everything \
            but `diff` is NULL, unless the systems agree. Rows with a NULL are left out; NULL \
            without rows.",
        arguments: &[
            Argument::required("first", Kind::Number, "Score of the first system on the item."),
            Argument::required("second", Kind::Number, "Score of the second system on the item."),
            Argument::optional("level", Kind::ConstantNumber, "Confidence level (default 0.95)."),
        ],
        returns: "struct(diff, se, z, p, low, high, n)",
        example: Example {
            sql: "SELECT d.diff, round(d.p, 4) AS p FROM (SELECT paired_difference(a, b) AS d FROM (VALUES (1, 0), (1, 1), (0, 1), (1, 0), (1, 0)) AS t(a, b))",
            result: "
+---------+--------+
| d[diff] | p      |
+---------+--------+
| 0.4     | 0.3173 |
+---------+--------+
",
        },
    },
    return_type,
    state: Collector::state_type,
    accumulator,
};

fn return_type() -> DataType {
    struct_type(&["diff", "se", "z", "p", "low", "high", "n"], &["n"])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let level = constants.level(2)?;
    Collector::boxed(
        constants.function(),
        Shape { paired: true, clusterings: 0 },
        &return_type(),
        Box::new(move |samples| Ok(difference(&paired_difference(&samples.values, level)?))),
    )
}

/// A paired difference as a struct.
pub(super) fn difference(paired: &PairedDifference) -> Result<ScalarValue> {
    let parts = [
        Part::Number(paired.diff),
        Part::Number(paired.se),
        Part::Number(paired.z),
        Part::Number(paired.p),
        Part::Number(paired.low),
        Part::Number(paired.high),
        Part::Count(paired.n as u64),
    ];
    struct_of(&return_type(), &parts)
}
