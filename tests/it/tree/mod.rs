//! The tree itself: layers, documents, dependencies, scripts.

mod benches;
pub mod circles;
mod dependencies;
mod fuzz;
mod named;
mod reference;
mod scripts;
pub mod tidy;
mod variables;
