//! `mcnemar`: McNemar's test of two systems on the same items.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, struct_of, struct_type};
use super::tally::Tally;
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::mcnemar;

/// SQL aggregate `mcnemar`.
pub static MCNEMAR: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "mcnemar",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "McNemar's test: are the items on which exactly one system is right evenly split? \
            `b` counts those only the first has right, `c` those only the second has right. \
            Prefer `p_exact` or `p_mid`; both are 1 if the systems agree on every item, where \
            the chi-square forms are NULL. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required("first", Kind::Boolean, "Whether the first system is right."),
            Argument::required("second", Kind::Boolean, "Whether the second system is right."),
        ],
        returns: "struct(n, b, c, p_exact, p_mid, chi2, chi2_p, chi2_uncorrected, chi2_uncorrected_p)",
        example: Example {
            sql: "SELECT m.n, m.b, m.c, round(m.p_exact, 6) AS p_exact FROM (SELECT mcnemar(v <= 9, v > 9) AS m FROM (SELECT unnest(range(1, 12)) AS v))",
            result: "
+------+------+------+---------+
| m[n] | m[b] | m[c] | p_exact |
+------+------+------+---------+
| 11   | 9    | 2    | 0.06543 |
+------+------+------+---------+
",
        },
    },
    return_type,
    state: Tally::state_type,
    accumulator,
};

fn return_type() -> DataType {
    struct_type(&NAMES, &["n", "b", "c"])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let _ = constants;
    Tally::boxed(
        3,
        Box::new(|columns, counts| {
            let (first, second) = (columns[0].as_boolean(), columns[1].as_boolean());
            for (first, second) in first.iter().zip(second) {
                let (Some(first), Some(second)) = (first, second) else {
                    continue;
                };
                counts[0] += 1;
                counts[1] += u64::from(first && !second);
                counts[2] += u64::from(second && !first);
            }
            Ok(())
        }),
        Box::new(|counts| finish(counts[0], counts[1], counts[2])),
    )
}

const NAMES: [&str; 9] =
    ["n", "b", "c", "p_exact", "p_mid", "chi2", "chi2_p", "chi2_uncorrected", "chi2_uncorrected_p"];

fn finish(n: u64, b: u64, c: u64) -> Result<ScalarValue> {
    if n == 0 {
        return ScalarValue::try_from(&return_type());
    }
    let test = mcnemar(b, c);
    struct_of(
        &return_type(),
        &[
            Part::Count(n),
            Part::Count(test.b),
            Part::Count(test.c),
            Part::Number(test.p_exact),
            Part::Number(test.p_mid),
            Part::Maybe(test.chi2.map(|chi2| chi2.statistic)),
            Part::Maybe(test.chi2.map(|chi2| chi2.p)),
            Part::Maybe(test.chi2_uncorrected.map(|chi2| chi2.statistic)),
            Part::Maybe(test.chi2_uncorrected.map(|chi2| chi2.p)),
        ],
    )
}
