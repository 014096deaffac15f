//! Values that the optimizer cannot look into.
//!
//! It takes `TRY_CAST(x AS INT) > 1` for `x > 1`, which is true of a number that is no `INT`, and `x IN (1) AND x IN (2)`
//! for false where `x` is NULL. It knows both by the form of the expression; behind a function they have another.

use datafusion::arrow::compute::{CastOptions, can_cast_types};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// `TRY_CAST(expr AS kind)`: NULL where the value is none of that type.
pub fn try_cast(expr: Expr, kind: DataType) -> Expr {
    let function = TryCast { kind, signature: Signature::any(1, Volatility::Immutable) };
    ScalarUDF::new_from_impl(function).call(vec![expr])
}

/// A cast to `kind` as a function that is called `name`; it fails or gives NULL where a value is none of that type.
pub fn named_cast(name: String, kind: DataType, may_fail: bool) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(NamedCast { name, kind, may_fail, signature })
}

/// `expr` itself; two of another number are not the same expression.
pub fn apart(expr: Expr, number: usize) -> Expr {
    let function = Apart { number, signature: Signature::any(1, Volatility::Immutable) };
    ScalarUDF::new_from_impl(function).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TryCast {
    kind: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for TryCast {
    fn name(&self) -> &str {
        "try_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.kind.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return internal_err!("TRY_CAST has one value") };
        value.cast_to(&self.kind, Some(&CastOptions { safe: true, ..Default::default() }))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    name: String,
    kind: DataType,
    may_fail: bool,
    signature: Signature,
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [from] if can_cast_types(from, &self.kind) => Ok(self.kind.clone()),
            [from] => plan_err!("Unsupported CAST from {from} to {}", self.kind),
            _ => internal_err!("a cast has one value"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [field] = args.arg_fields else { return internal_err!("a cast has one value") };
        let kind = self.return_type(&[field.data_type().clone()])?;
        Ok(Field::new(self.name(), kind, field.is_nullable() || !self.may_fail).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return internal_err!("a cast has one value") };
        let options = CastOptions { safe: !self.may_fail, ..Default::default() };
        value.cast_to(&self.kind, Some(&options))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Apart {
    number: usize,
    signature: Signature,
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &str {
        "apart"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [kind] => Ok(kind.clone()),
            _ => internal_err!("`apart` has one value"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [field] = args.arg_fields else { return internal_err!("`apart` has one value") };
        Ok(Field::new(self.name(), field.data_type().clone(), field.is_nullable()).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match <[ColumnarValue; 1]>::try_from(args.args) {
            Ok([value]) => Ok(value),
            Err(_) => internal_err!("`apart` has one value"),
        }
    }
}
