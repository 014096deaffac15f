//! `benjamini_hochberg`: p values adjusted for several tests, after Benjamini and Hochberg.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::numbers_type;
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::stats::benjamini_hochberg;

/// SQL function `benjamini_hochberg`.
pub static BENJAMINI_HOCHBERG: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "benjamini_hochberg",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "Benjamini and Hochberg's adjusted p values: reject those at most alpha, and the \
            expected share of false alarms among the rejected stays below alpha (1995). The \
            order of the list is kept. NULL if the list is NULL or holds a NULL.",
        arguments: &[Argument::required("p", Kind::Numbers, "The p values.")],
        returns: "a list of doubles",
        example: Example {
            sql: "SELECT benjamini_hochberg([0.01, 0.04, 0.03]) AS adjusted",
            result: "
+--------------------+
| adjusted           |
+--------------------+
| [0.03, 0.04, 0.04] |
+--------------------+
",
        },
    },
    return_type: |_| numbers_type(),
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    super::outputs::adjusted(inputs, benjamini_hochberg)
}
