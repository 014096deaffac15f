//! SQL functions of proofmill: text metrics, JSON, statistics, and questions to language models.
//!
//! Layers, each usable alone:
//! - [`text`] and [`stats`]: plain Rust functions over strings and slices;
//! - [`scalar`] and [`aggregate`]: the same as SQL functions, one file each;
//! - [`model`]: SQL functions that ask models, and the record of their answers;
//! - [`docs()`]: what every function is called, takes and returns, as data.
//!
//! # Adding a function
//!
//! 1. Write the core in `text/` or `stats/` with its source named and its tests.
//! 2. Add `scalar/<name>.rs`, `aggregate/<name>.rs` or `model/functions/<name>.rs` with one `static`
//!    definition: documentation with a runnable example, arguments, return type, and the call of
//!    the core.
//! 3. Add the definition to the one list in `scalar/mod.rs`, `aggregate/mod.rs` or
//!    `model/functions/mod.rs`.
//! 4. Add a case to `tests/sql.rs` and a row to `benches/functions.rs`; a test fails until a
//!    function has both.
//!
//! A change to what a function returns for the same arguments raises its `version`: cached results
//! of pipelines depend on it.

#![forbid(unsafe_code)]

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub mod aggregate;
pub mod definition;
pub mod exact;
pub mod model;
pub mod scalar;
pub mod stats;
pub mod text;

use definition::Doc;

/// Every scalar function, ready to be registered.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    scalar::DEFINITIONS.iter().map(|definition| scalar::udf(definition)).collect()
}

/// Every aggregate function, ready to be registered.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    aggregate::DEFINITIONS.iter().map(|definition| aggregate::udf(definition)).collect()
}

pub use model::model_functions;

/// The documentation of every function: scalar functions, aggregate functions, model
/// functions, each kind in the listed order.
pub fn docs() -> Vec<&'static Doc> {
    let scalars = scalar::DEFINITIONS.iter().map(|definition| &definition.doc);
    let aggregates = aggregate::DEFINITIONS.iter().map(|definition| &definition.doc);
    let models = model::DEFINITIONS.iter().map(|definition| &definition.doc);
    scalars.chain(aggregates).chain(models).collect()
}

/// The behaviour version of a function, part of the fingerprint of every stage that uses it;
/// `None` for a function that is not of this crate.
pub fn version(name: &str) -> Option<u32> {
    docs().into_iter().find(|doc| doc.name == name).map(|doc| doc.version)
}
