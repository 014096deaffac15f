//! `holm`: p values adjusted for several tests, after Holm.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::numbers_type;
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::holm;

/// SQL function `holm`.
pub static HOLM: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "holm",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Holm's adjusted p values: reject those at most alpha, and the chance of any false \
            alarm stays below alpha (Holm 1979). The order of the list is kept. NULL if the \
            list is NULL or holds a NULL.",
        arguments: &[Argument::required("p", Kind::Numbers, "The p values.")],
        returns: "a list of doubles",
        example: Example {
            sql: "SELECT holm([0.01, 0.04, 0.03]) AS adjusted",
            result: "
+--------------------+
| adjusted           |
+--------------------+
| [0.03, 0.06, 0.06] |
+--------------------+
",
        },
    },
    return_type: |_| numbers_type(),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    super::outputs::adjusted(inputs, holm)
}
