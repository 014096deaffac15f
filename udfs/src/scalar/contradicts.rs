//! `contradicts`: whether one sentence denies what another affirms.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::negation;

/// SQL function `contradicts`.
pub static CONTRADICTS: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "contradicts",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Whether one of two plain English sentences denies what the other affirms, by the rules of \
            `negation`. Case, white space, a full stop, articles, and `is a kind of` instead of `is a` make no \
            difference. False where the rules do not see it: sentences that contradict each other in \
            other words, or with `all` and `some`. NULL if an argument is NULL. Many sentences against many are \
            compared faster by `claim`.",
        arguments: &[
            Argument::required("one", Kind::Text, "A sentence."),
            Argument::required(
                "other",
                Kind::Text,
                "Another one; their order makes no difference.",
            ),
        ],
        returns: "a boolean",
        example: Example {
            sql: "SELECT contradicts('A tuna is not a kind of mammal.', 'a tuna is a mammal') AS denied, \
                contradicts('A tuna is a fish.', 'A tuna is a mammal.') AS different",
            result: "
+--------+-----------+
| denied | different |
+--------+-----------+
| true   | false     |
+--------+-----------+
",
        },
    },
    return_type: |_| DataType::Boolean,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (one, other) = (inputs.text(0)?, inputs.text(1)?);
    let values: BooleanArray = (0..inputs.rows)
        .map(|row| Some(negation::contradicts(one.get(row)?, other.get(row)?)))
        .collect();
    Ok(Arc::new(values))
}
