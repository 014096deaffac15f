//! Aggregate SQL functions: one definition a file, one list, one implementation of DataFusion's
//! trait.
//!
//! Rows with a NULL in any column argument are left out; an aggregate of no rows is NULL. The
//! result depends on the rows and not on their order or partition.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature, Volatility,
};

use crate::definition::Doc;

mod accuracy;
mod approximate_randomization;
mod bootstrap_ci;
mod cluster_bootstrap_ci;
mod clustered_paired;
mod clustered_se;
mod constants;
mod corpus_bleu;
mod corpus_chrf;
mod mcc;
mod mcnemar;
mod noise_floor;
mod outputs;
mod paired_bootstrap;
mod paired_difference;
mod samples;
mod tally;

pub use constants::Constants;

/// Every aggregate function of this crate.
pub static DEFINITIONS: &[&AggregateDefinition] = &[
    &accuracy::ACCURACY,
    &mcc::MCC,
    &corpus_bleu::CORPUS_BLEU,
    &corpus_chrf::CORPUS_CHRF,
    &bootstrap_ci::BOOTSTRAP_CI,
    &cluster_bootstrap_ci::CLUSTER_BOOTSTRAP_CI,
    &clustered_se::CLUSTERED_SE,
    &mcnemar::MCNEMAR,
    &paired_difference::PAIRED_DIFFERENCE,
    &clustered_paired::CLUSTERED_PAIRED,
    &paired_bootstrap::PAIRED_BOOTSTRAP,
    &approximate_randomization::APPROXIMATE_RANDOMIZATION,
    &noise_floor::NOISE_FLOOR,
];

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
