//! `paired_sample_size`: how many items a paired comparison needs.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::Int64Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::exec_err;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::power_paired_proportions;

/// SQL function `paired_sample_size`.
pub static PAIRED_SAMPLE_SIZE: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "paired_sample_size",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Number of items at which two systems that disagree on a share `discordance` of the \
            items and differ by `difference` in accuracy are told apart, two-sided (Connor \
            1987). NULL if an argument is NULL or the difference is 0.",
        arguments: &[
            Argument::required(
                "difference",
                Kind::Number,
                "Difference of the accuracies, for example 0.044.",
            ),
            Argument::required(
                "discordance",
                Kind::Number,
                "Share of the items on which exactly one system is right.",
            ),
            Argument::optional("alpha", Kind::ConstantNumber, "Level of the test (default 0.05)."),
            Argument::optional(
                "power",
                Kind::ConstantNumber,
                "Chance to find the difference (default 0.8).",
            ),
        ],
        returns: "a bigint",
        example: Example {
            sql: "SELECT paired_sample_size(0.044, 0.252) AS items",
            result: "
+-------+
| items |
+-------+
| 1020  |
+-------+
",
        },
    },
    return_type: |_| DataType::Int64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let alpha = inputs.constant_number(2)?.unwrap_or(0.05);
    let power = inputs.constant_number(3)?.unwrap_or(0.8);
    let (difference, discordance) = (inputs.number(0)?, inputs.number(1)?);
    let items: Int64Array = (0..inputs.rows)
        .map(|row| {
            let Some((d, pd)) = difference.get(row).zip(discordance.get(row)) else {
                return Ok(None);
            };
            match power_paired_proportions(d, pd, alpha, power) {
                Ok(line) => Ok(line.n_rounded_up.and_then(|n| i64::try_from(n).ok())),
                Err(error) => exec_err!("`paired_sample_size`: {error}"),
            }
        })
        .collect::<Result<_>>()?;
    Ok(Arc::new(items))
}
