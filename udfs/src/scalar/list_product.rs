//! `list_product`: the product of a list of numbers.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Inputs, ScalarDefinition, outputs};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind};

/// SQL function `list_product`.
pub static LIST_PRODUCT: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "list_product",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "The product of the numbers of a list, multiplied from the first to the last, so that the bits do \
            not depend on how a query is computed. 1 if the list is empty; NULL if it is NULL or has a NULL.",
        arguments: &[Argument::required("numbers", Kind::Numbers, "The factors.")],
        returns: "number",
        example: Example {
            sql: "SELECT list_product([0.5, 0.5, 4.0]) AS product",
            result: "
+---------+
| product |
+---------+
| 1.0     |
+---------+
",
        },
    },
    return_type: |_| DataType::Float64,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let numbers = inputs.numbers(0)?;
    outputs::numbers(inputs, |row| Ok(numbers.get(row).map(|list| list.iter().product())))
}
