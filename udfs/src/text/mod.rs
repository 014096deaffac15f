//! Text metrics, the negation of sentences, templates, and JSON: plain functions over strings, no Arrow, no SQL.
//!
//! Every metric follows a named version of the package whose numbers papers report.

pub mod bert_score;
pub mod bleu;
pub mod chrf;
pub mod cosine;
pub mod entailment;
pub mod json;
pub mod levenshtein;
pub mod meteor;
pub mod negation;
pub mod ngrams;
pub mod nltk_bleu;
pub mod normalize;
pub mod overlap;
pub mod porter;
pub mod reasoning;
pub mod rouge;
pub mod slots;
pub mod template;
pub mod tokenize_13a;
pub mod verbs;
pub mod words;
