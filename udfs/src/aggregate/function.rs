//! An aggregate function as data, and as one of DataFusion.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature, Volatility,
};

use super::constants::Constants;
use crate::definition::Doc;

/// An aggregate function as data.
#[derive(Debug)]
pub struct AggregateDefinition {
    /// Name, arguments, documentation.
    pub doc: Doc,
    pub return_type: fn() -> DataType,
    /// Names and types of what one partition hands to the next phase.
    pub state: fn() -> Vec<(&'static str, DataType)>,
    /// Starts a group; the constants are checked here.
    pub accumulator: fn(&Constants) -> Result<Box<dyn Accumulator>>,
}

/// The definition as a DataFusion function.
pub fn udf(definition: &'static AggregateDefinition) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(AggregateFunction {
        definition,
        signature: Signature::user_defined(Volatility::Immutable),
        documentation: OnceLock::new(),
    }))
}

#[derive(Debug)]
struct AggregateFunction {
    definition: &'static AggregateDefinition,
    signature: Signature,
    documentation: OnceLock<Documentation>,
}

// A definition is known by its name: the names of the list are distinct.
impl PartialEq for AggregateFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.doc.name == other.definition.doc.name
    }
}

impl Eq for AggregateFunction {}

impl Hash for AggregateFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.doc.name.hash(state);
    }
}

impl AggregateUDFImpl for AggregateFunction {
    fn name(&self) -> &str {
        self.definition.doc.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.definition.doc.coerce_types(arg_types)
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok((self.definition.return_type)())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let fields = (self.definition.state)().into_iter().map(|(name, data_type)| {
            Arc::new(Field::new(format_state_name(args.name, name), data_type, true))
        });
        Ok(fields.collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return not_impl_err!("`{}(DISTINCT ...)`: expected all rows", self.name());
        }
        (self.definition.accumulator)(&Constants::new(&self.definition.doc, &args)?)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(self.documentation.get_or_init(|| self.definition.doc.documentation()))
    }
}
