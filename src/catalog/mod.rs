//! What a store says of past runs, read without an engine: the events of a run's log, what they come to, which run a
//! reference means, and which table was made from which.

pub mod audit;
pub mod event;
pub mod lineage;
pub mod outcomes;
pub mod progress;
pub mod reference;
pub mod summary;
