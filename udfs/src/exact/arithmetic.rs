//! `+`, `-` and `*` of whole numbers, with an error where the result does not fit in their type.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Datum, Scalar, new_null_array};
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use thiserror::Error;

/// Characters of a value that an error shows.
const VALUE_CHARS_MAX: usize = 40;

/// A result that does not fit in its type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Overflow(String);

impl Overflow {
    /// Whether that is why a query failed.
    pub fn is_in(error: &DataFusionError) -> bool {
        matches!(error.find_root(), DataFusionError::External(inner) if inner.is::<Self>())
    }
}

/// An operation of two whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Add,
    Subtract,
    Multiply,
}

impl Operation {
    fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
        }
    }

    fn compute(self, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Add => add(left, right),
            Self::Subtract => sub(left, right),
            Self::Multiply => mul(left, right),
        }
    }
}

/// `left operation right`, both of the whole-number type `kind`. An error shows the columns of its `row`, each with the
/// name that it has there.
pub fn checked(
    operation: Operation,
    kind: DataType,
    left: Expr,
    right: Expr,
    row: &[(String, Expr)],
) -> Expr {
    let text = format!("{} {} {}", left.human_display(), operation.sign(), right.human_display());
    let signature = Signature::any(2 + row.len(), Volatility::Immutable);
    let (names, columns): (Vec<_>, Vec<_>) = row.iter().cloned().unzip();
    let function = Checked { operation, kind, text, names, signature };
    ScalarUDF::new_from_impl(function).call([left, right].into_iter().chain(columns).collect())
}

/// A call of [`checked`] without a row, with one; `None` for another call.
pub fn with_row(call: &ScalarFunction, row: &[(String, Expr)]) -> Option<Expr> {
    let function = call.func.inner().downcast_ref::<Checked>()?;
    let [left, right] = call.args.as_slice() else { return None };
    let (operation, kind) = (function.operation, function.kind.clone());
    Some(checked(operation, kind, left.clone(), right.clone(), row))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    kind: DataType,
    /// The operation as errors show it.
    text: String,
    /// Names of the columns behind the two sides.
    names: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "checked_add",
            Operation::Subtract => "checked_subtract",
            Operation::Multiply => "checked_multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.kind.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().take(2).any(|field| field.is_nullable());
        Ok(Field::new(self.name(), self.kind.clone(), nullable).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right, row @ ..] = args.args.as_slice() else {
            return internal_err!("an operation has two sides");
        };
        let both = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let is_null =
            |side: &ColumnarValue| matches!(side, ColumnarValue::Scalar(v) if v.is_null());
        let rows = if both { 1 } else { args.number_rows };
        let values = if is_null(left) || is_null(right) {
            new_null_array(&self.kind, rows)
        } else {
            let (left, right) = (Side::of(left)?, Side::of(right)?);
            match self.operation.compute(left.datum(), right.datum()) {
                Ok(values) => values,
                Err(ArrowError::ArithmeticOverflow(_)) => {
                    return self.overflow(&left, &right, row);
                }
                Err(error) => return Err(error.into()),
            }
        };
        Ok(match both {
            true => {
                ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&values, 0)?)
            }
            false => ColumnarValue::Array(values),
        })
    }
}

impl Checked {
    /// The error of the first row that has no result, with its two values.
    fn overflow(
        &self,
        left: &Side,
        right: &Side,
        columns: &[ColumnarValue],
    ) -> Result<ColumnarValue> {
        let rows = left.rows().max(right.rows());
        let fails = |row: &usize| {
            let (left, right) = (left.row(*row), right.row(*row));
            self.operation.compute(&left, &right).is_err()
        };
        let row = (0..rows).find(fails).unwrap_or(0);
        let of = |side: &Side| array_value_to_string(side.row(row).get().0, 0);
        let mut whole = String::new();
        for (name, column) in self.names.iter().zip(columns) {
            let before = if whole.is_empty() { ", in the row with" } else { "," };
            let value = Side::of(column)?.row(row);
            let value = match value.get().0.is_null(0) {
                true => "NULL".to_owned(),
                false => array_value_to_string(value.get().0, 0)?,
            };
            let on_one_line = |c: char| if c.is_control() { ' ' } else { c };
            let shown: String = value.chars().take(VALUE_CHARS_MAX).map(on_one_line).collect();
            let cut = if value.chars().nth(VALUE_CHARS_MAX).is_some() { "…" } else { "" };
            let _ = write!(whole, "{before} {name} = {shown}{cut}");
        }
        let message = format!(
            "`{self}` does not fit in {}: {} {} {}{whole}; cast one side to DOUBLE or DECIMAL(38, 0), or leave such \
             rows out",
            name(&self.kind),
            of(left)?,
            self.operation.sign(),
            of(right)?
        );
        Err(DataFusionError::External(Box::new(Overflow(message))))
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The name of a whole-number type in SQL.
pub(super) fn name(kind: &DataType) -> String {
    let name = match kind {
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// One side of an operation.
enum Side {
    Same(Scalar<ArrayRef>),
    Each(ArrayRef),
}

impl Side {
    fn of(value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Scalar(scalar) => Self::Same(scalar.to_scalar()?),
            ColumnarValue::Array(array) => Self::Each(Arc::clone(array)),
        })
    }

    fn datum(&self) -> &dyn Datum {
        match self {
            Self::Same(scalar) => scalar,
            Self::Each(array) => array,
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Same(_) => 1,
            Self::Each(array) => array.len(),
        }
    }

    fn row(&self, row: usize) -> Scalar<ArrayRef> {
        match self {
            Self::Same(scalar) => scalar.clone(),
            Self::Each(array) => Scalar::new(array.slice(row, 1)),
        }
    }
}
