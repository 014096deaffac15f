//! The one integration test binary: the program as its users meet it.

mod broken;
mod cache;
mod checks;
mod cosmetics;
mod dense;
mod devices;
mod endpoint;
mod fitting;
mod memory;
mod model_cache;
mod models;
mod oracle;
mod pipelines;
mod proofs;
mod proofs_cache;
mod reading;
mod reference;
mod resume;
mod runs;
mod server;
mod store_faults;
mod support;
mod teaching;
mod tidy;
