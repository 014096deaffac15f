//! `chrf_signature`: the conditions under which a corpus chrF was computed.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::StringArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::chrf::{WORD_ORDER_MAX, chrf_signature};

/// More references than any segment has.
const REFERENCES_MAX: i64 = 1_000;

/// SQL function `chrf_signature`.
pub static CHRF_SIGNATURE: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "chrf_signature",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The sacrebleu signature of `corpus_chrf`: store it with every score. NULL if an \
            argument is NULL.",
        arguments: &[
            Argument::required(
                "n_references",
                Kind::ConstantWhole,
                "References of every segment; 0 if their number varies.",
            ),
            Argument::optional(
                "word_order",
                Kind::ConstantWhole,
                "Longest word n-gram: 0 (default) is chrF, 2 is chrF++.",
            ),
        ],
        returns: "text",
        example: Example {
            sql: "SELECT chrf_signature(1, 2) AS signature",
            result: "
+-------------------------------------------------------------+
| signature                                                   |
+-------------------------------------------------------------+
| nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0 |
+-------------------------------------------------------------+
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let references = inputs.constant_whole(0, 1, REFERENCES_MAX)?;
    let word_order = inputs.constant_whole(1, 0, WORD_ORDER_MAX as i64)?;
    let signature = chrf_signature(word_order, (references > 0).then_some(references));
    Ok(Arc::new(StringArray::from(vec![signature; inputs.rows])))
}
