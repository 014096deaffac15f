//! What is computed again and what is not: fingerprints, mutations, the ledger.

mod cache;
mod cosmetics;
mod forgetting;
mod goldens;
pub mod identity;
pub mod model_cache;
mod proofs_cache;
pub mod replaced;
mod settings;
mod volatile;
