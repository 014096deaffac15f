//! `calibration`: whether confidence says how often answers are right.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::Accumulator;

use super::outputs::{Part, list_of, list_type, struct_of, struct_type};
use super::samples::{Collector, Shape};
use super::{AggregateDefinition, Constants};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::{BINS_MAX, CalibrationBin, calibration};

/// SQL aggregate `calibration`.
pub static CALIBRATION: AggregateDefinition = AggregateDefinition {
    doc: Doc {
        name: "calibration",
        version: 1,
        kind: FunctionKind::Aggregate,
        description: "Calibration of confidence in answers: `ece`, the expected calibration error over bins of \
            equal width (Naeini et al. 2015), `mce`, the largest distance of a bin, `brier`, the \
            Brier score, and `bins`, the reliability table: of each bin with answers its bounds, \
            answers, mean confidence and accuracy. A bin holds what is above `low` and at most \
            `high`, the first one 0 too. Rows with a NULL are left out; NULL without rows.",
        arguments: &[
            Argument::required(
                "confidence",
                Kind::Number,
                "Probability that the answer is right, from 0 to 1.",
            ),
            Argument::required("right", Kind::Boolean, "Whether the answer is right."),
            Argument::optional(
                "bins",
                Kind::ConstantWhole,
                "Number of bins, up to 1,000 (default 10).",
            ),
        ],
        returns: "struct(ece, mce, brier, n, bins: list of struct(low, high, n, confidence, accuracy))",
        example: Example {
            sql: "SELECT round(c.ece, 4) AS ece, round(c.brier, 4) AS brier, c.n FROM (SELECT calibration(p, ok, 2) AS c FROM (VALUES (0.5, true), (1.0, false), (0.2, false), (0.0, false), (0.75, true)) AS t(p, ok))",
            result: "
+------+--------+------+
| ece  | brier  | c[n] |
+------+--------+------+
| 0.21 | 0.2705 | 5    |
+------+--------+------+
",
        },
    },
    return_type,
    state: Collector::state_type,
    accumulator,
};

fn return_type() -> DataType {
    let DataType::Struct(numbers) = struct_type(&["ece", "mce", "brier", "n"], &["n"]) else {
        return DataType::Null;
    };
    let bins = Arc::new(Field::new("bins", bins_type(), true));
    DataType::Struct(numbers.iter().cloned().chain([bins]).collect())
}

fn bins_type() -> DataType {
    list_type(&["low", "high", "n", "confidence", "accuracy"], &[], &["n"])
}

fn accumulator(constants: &Constants) -> Result<Box<dyn Accumulator>> {
    let bins = constants.whole(2).unwrap_or(10);
    let bins = match usize::try_from(bins) {
        Ok(fitting @ 1..=BINS_MAX) => fitting,
        _ => {
            return constants
                .refuse(2, format!("`{bins}` bins; expected between 1 and {BINS_MAX}"));
        }
    };
    Collector::boxed(
        constants.function(),
        Shape { paired: false, clusterings: 1 },
        &return_type(),
        Box::new(move |samples| {
            let right: Vec<bool> =
                samples.clusters[0].iter().map(|label| label == "true").collect();
            let found = calibration(&samples.values, &right, bins)?;
            let row = |bin: &CalibrationBin| {
                vec![
                    Part::Number(bin.low),
                    Part::Number(bin.high),
                    Part::Count(bin.n),
                    Part::Number(bin.confidence),
                    Part::Number(bin.accuracy),
                ]
            };
            let bins = list_of(&bins_type(), &found.bins.iter().map(row).collect::<Vec<_>>());
            Ok(bins.and_then(|bins| {
                let parts = [
                    Part::Number(found.ece),
                    Part::Number(found.mce),
                    Part::Number(found.brier),
                    Part::Count(found.n),
                    Part::List(bins),
                ];
                struct_of(&return_type(), &parts)
            }))
        }),
    )
}
