//! Events and tables as people and programs see them.

mod asked;
pub mod lines;
pub mod logged;
pub mod metrics;
pub mod page;
pub mod terminal;
pub mod trace;
pub mod units;
pub mod width;
