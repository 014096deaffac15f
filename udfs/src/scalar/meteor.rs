//! `meteor`: METEOR without synonyms.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::outputs::against_texts;
use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::meteor::meteor;

/// SQL function `meteor`.
pub static METEOR: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "meteor",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "METEOR as nltk computes it without WordNet: exact words, then Porter stems; alpha \
            0.9, beta 3, gamma 0.5. Tokens are words and single marks. Of several references \
            the best counts. Other METEOR programs differ by up to 10 points. NULL if an \
            argument is NULL or there is no reference.",
        arguments: &[
            Argument::required("hypothesis", Kind::Text, "The text to be scored."),
            Argument::required("references", Kind::Texts, "The reference text or a list of them."),
        ],
        returns: "a double from 0 to 1",
        example: Example {
            sql: "SELECT meteor('on the mat sat the cat', 'the cat sat on the mat') AS meteor",
            result: "
+--------+
| meteor |
+--------+
| 0.5    |
+--------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    against_texts(inputs, meteor)
}
