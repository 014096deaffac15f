//! Scalar SQL functions: one definition a file (of JSON, some), one list, one implementation of DataFusion's trait.

mod alpha_spent;
mod benjamini_hochberg;
mod bert_score;
mod bleu;
mod bleu_signature;
mod chrf;
mod chrf_signature;
mod claim;
mod contradicts;
mod cosine_similarity;
mod entailment_proof;
mod exact_match;
mod function;
mod holm;
mod inputs;
mod json;
mod kf1;
mod kf1_sets;
mod levenshtein;
mod levenshtein_similarity;
mod list_product;
mod meteor;
mod negation;
mod nltk_bleu;
mod normalize_text;
mod outputs;
mod paired_sample_size;
mod parlai_bleu;
mod premises;
mod reasoning_steps;
mod render;
mod rouge;
mod sign_e_value;
mod slot_value;
mod token_f1;
mod two_proportion_z;
mod wilson_interval;

pub use function::{ScalarDefinition, udf};
pub use inputs::Inputs;
pub use json::JsonOperators;

/// Every scalar function of this crate.
pub static DEFINITIONS: &[&ScalarDefinition] = &[
    &normalize_text::NORMALIZE_TEXT,
    &exact_match::EXACT_MATCH,
    &token_f1::TOKEN_F1,
    &kf1::KF1,
    &kf1_sets::KF1_SETS,
    &bleu::BLEU,
    &bleu_signature::BLEU_SIGNATURE,
    &nltk_bleu::NLTK_BLEU,
    &parlai_bleu::PARLAI_BLEU,
    &chrf::CHRF,
    &chrf_signature::CHRF_SIGNATURE,
    &rouge::ROUGE,
    &meteor::METEOR,
    &bert_score::BERT_SCORE,
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
    &negation::NEGATION,
    &claim::CLAIM,
    &contradicts::CONTRADICTS,
    &list_product::LIST_PRODUCT,
    &render::RENDER,
    &json::JSON_GET,
    &json::JSON_AS_TEXT,
    &json::JSON_GET_STR,
    &json::JSON_GET_INT,
    &json::JSON_GET_FLOAT,
    &json::JSON_GET_BOOL,
    &json::JSON_GET_ARRAY,
    &json::JSON_LENGTH,
    &json::JSON_CONTAINS,
    &json::JSON_OBJECT_KEYS,
    &json::EXTRACT_JSON,
];
