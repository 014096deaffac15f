//! `bleu_signature`: the conditions under which a corpus BLEU was computed.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::array::StringArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::bleu::{BleuOptions, Smoothing};

/// More references than any segment has.
const REFERENCES_MAX: i64 = 1_000;

/// SQL function `bleu_signature`.
pub static BLEU_SIGNATURE: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "bleu_signature",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The sacrebleu signature of `corpus_bleu`: store it with every score. Scores with \
            different signatures are not comparable. NULL if an argument is NULL.",
        arguments: &[
            Argument::required(
                "n_references",
                Kind::ConstantWhole,
                "References of every segment; 0 if their number varies.",
            ),
            Argument::optional(
                "smoothing",
                Kind::Choice(Smoothing::NAMES),
                "`exp` (default), `floor`, `add-k` or `none`.",
            ),
            Argument::optional(
                "smoothing_value",
                Kind::ConstantNumber,
                "Value of `floor` (default 0.1) or `add-k` (default 1).",
            ),
        ],
        returns: "text",
        example: Example {
            sql: "SELECT bleu_signature(1) AS signature",
            result: "
+------------------------------------------------------------+
| signature                                                  |
+------------------------------------------------------------+
| nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0 |
+------------------------------------------------------------+
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let smoothing = super::bleu::smoothing(inputs, 1)?;
    let references = inputs.constant_whole(0, 1, REFERENCES_MAX)?;
    let options = BleuOptions { smoothing, ..BleuOptions::CORPUS };
    let signature = options.signature((references > 0).then_some(references));
    Ok(Arc::new(StringArray::from(vec![signature; inputs.rows])))
}
