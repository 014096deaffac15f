//! Scalar SQL functions: one definition a file, one list, one implementation of DataFusion's trait.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::definition::Doc;

mod alpha_spent;
mod benjamini_hochberg;
mod bleu;
mod bleu_signature;
mod chrf;
mod chrf_signature;
mod cosine_similarity;
mod entailment_proof;
mod exact_match;
mod holm;
mod inputs;
mod kf1;
mod levenshtein;
mod levenshtein_similarity;
mod list_product;
mod meteor;
mod nltk_bleu;
mod normalize_text;
mod outputs;
mod paired_sample_size;
mod parlai_bleu;
mod premises;
mod reasoning_steps;
mod rouge;
mod sign_e_value;
mod slot_value;
mod token_f1;
mod two_proportion_z;
mod wilson_interval;

pub use inputs::Inputs;

/// Every scalar function of this crate.
pub static DEFINITIONS: &[&ScalarDefinition] = &[
    &normalize_text::NORMALIZE_TEXT,
    &exact_match::EXACT_MATCH,
    &token_f1::TOKEN_F1,
    &kf1::KF1,
    &bleu::BLEU,
    &bleu_signature::BLEU_SIGNATURE,
    &nltk_bleu::NLTK_BLEU,
    &parlai_bleu::PARLAI_BLEU,
    &chrf::CHRF,
    &chrf_signature::CHRF_SIGNATURE,
    &rouge::ROUGE,
    &meteor::METEOR,
    &levenshtein::LEVENSHTEIN,
    &levenshtein_similarity::LEVENSHTEIN_SIMILARITY,
    &cosine_similarity::COSINE_SIMILARITY,
    &wilson_interval::WILSON_INTERVAL,
    &holm::HOLM,
    &benjamini_hochberg::BENJAMINI_HOCHBERG,
    &paired_sample_size::PAIRED_SAMPLE_SIZE,
    &two_proportion_z::TWO_PROPORTION_Z,
    &sign_e_value::SIGN_E_VALUE,
    &alpha_spent::ALPHA_SPENT,
    &slot_value::SLOT_VALUE,
    &premises::PREMISES,
    &reasoning_steps::REASONING_STEPS,
    &entailment_proof::ENTAILMENT_PROOF,
    &list_product::LIST_PRODUCT,
];

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
