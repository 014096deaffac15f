//! A scalar function as data, and as one of DataFusion.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::inputs::Inputs;
use crate::definition::Doc;

/// A scalar function as data.
#[derive(Debug)]
pub struct ScalarDefinition {
    /// Name, arguments, documentation.
    pub doc: Doc,
    /// Type of the result from the types of the arguments after coercion.
    pub return_type: fn(&[DataType]) -> DataType,
    /// Computes one value per row.
    pub invoke: fn(&Inputs) -> Result<ArrayRef>,
}

/// The definition as a DataFusion function.
pub fn udf(definition: &'static ScalarDefinition) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(ScalarFunction {
        definition,
        signature: Signature::user_defined(Volatility::Immutable),
        documentation: OnceLock::new(),
    }))
}

#[derive(Debug)]
struct ScalarFunction {
    definition: &'static ScalarDefinition,
    signature: Signature,
    documentation: OnceLock<Documentation>,
}

// A definition is known by its name: the names of the list are distinct.
impl PartialEq for ScalarFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.doc.name == other.definition.doc.name
    }
}

impl Eq for ScalarFunction {}

impl Hash for ScalarFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.doc.name.hash(state);
    }
}

impl ScalarUDFImpl for ScalarFunction {
    fn name(&self) -> &str {
        self.definition.doc.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.definition.doc.coerce_types(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok((self.definition.return_type)(arg_types))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let Some(inputs) = Inputs::new(&self.definition.doc, &args)? else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_type())?));
        };
        let result = (self.definition.invoke)(&inputs)?;
        if all_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(self.documentation.get_or_init(|| self.definition.doc.documentation()))
    }
}
