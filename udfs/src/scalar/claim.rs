//! `claim`: what a sentence affirms or denies.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, StringArray, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::negation;

/// SQL function `claim`.
pub static CLAIM: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "claim",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "What a plain English sentence affirms, in lower case, without articles and without a full stop, \
            and whether the sentence denies it, by the rules of `negation`. Two sentences contradict each other \
            (`contradicts`) where `affirmed` is the same and `denied` is not, which a join can look up. NULL \
            if the text is NULL.",
        arguments: &[Argument::required("sentence", Kind::Text, "The sentence.")],
        returns: "struct(affirmed, denied)",
        example: Example {
            sql: "SELECT c.affirmed AS affirmed, c.denied AS denied FROM (SELECT claim('A tuna is not a kind of mammal.') AS c)",
            result: "
+----------------+--------+
| affirmed       | denied |
+----------------+--------+
| tuna is mammal | true   |
+----------------+--------+
",
        },
    },
    return_type: |_| DataType::Struct(fields()),
    invoke,
};

fn fields() -> Fields {
    let affirmed = Field::new("affirmed", DataType::Utf8, true);
    Fields::from(vec![affirmed, Field::new("denied", DataType::Boolean, true)])
}

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let sentence = inputs.text(0)?;
    let claims: Vec<Option<negation::Claim>> =
        (0..inputs.rows).map(|row| sentence.get(row).map(negation::claim)).collect();
    let nulls: NullBuffer = claims.iter().map(Option::is_some).collect();
    let denied: BooleanArray = claims.iter().map(|claim| Some(claim.as_ref()?.denied)).collect();
    let affirmed: StringArray =
        claims.iter().map(|claim| Some(claim.as_ref()?.affirmed.as_str())).collect();
    let parts: Vec<ArrayRef> = vec![Arc::new(affirmed), Arc::new(denied)];
    Ok(Arc::new(StructArray::try_new(fields(), parts, Some(nulls))?))
}
