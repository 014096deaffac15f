//! `negation`: what is true if a sentence is false.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};
use crate::text::negation;

/// SQL function `negation`.
pub static NEGATION: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "negation",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The negation of a plain English statement, by rules: its main verb takes a `not`, or loses it. \
            NULL where no rule applies (statements that begin with a word such as `all` or `some`, with `only` or \
            `sometimes`, conditions, questions, verbs that are not known), or if the text is NULL.",
        arguments: &[Argument::required("statement", Kind::Text, "The statement.")],
        returns: "text",
        example: Example {
            sql: "SELECT negation('A magnet can attract copper.') AS denied, \
                negation('copper does not rust') AS affirmed",
            result: "
+---------------------------------+--------------+
| denied                          | affirmed     |
+---------------------------------+--------------+
| A magnet cannot attract copper. | copper rusts |
+---------------------------------+--------------+
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let statement = inputs.text(0)?;
    let values: StringArray =
        (0..inputs.rows).map(|row| negation::negation(statement.get(row)?)).collect();
    Ok(Arc::new(values))
}
