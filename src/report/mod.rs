//! Events and tables as people and programs see them.

mod asked;
pub mod cells;
pub mod lines;
pub mod metrics;
pub mod table;
pub mod terminal;
pub mod tree;
pub mod units;
