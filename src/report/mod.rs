//! Events and tables as people and programs see them.

mod frame;
pub mod lines;
pub mod logged;
pub mod metrics;
pub mod model_usage;
pub mod page;
pub mod terminal;
pub mod trace;
pub mod units;
mod watch;
pub mod width;

#[cfg(test)]
mod tests;
