//! What commands show of a store: typed values, each computed once. A view is what `--json` prints, and it gives the
//! sections that people see.

pub mod attribution;
pub mod audit;
pub mod channels;
pub mod ci;
pub mod diff;
pub mod errors;
pub mod explain;
pub mod functions;
pub mod ledger;
pub mod memory;
pub mod models;
pub mod page;
pub mod plan;
pub mod replay;
pub mod result;
pub mod run;
pub mod runs;
pub mod schedule;
pub mod section;
pub mod shell;
pub mod stage;
pub mod testing;
pub mod trends;
pub mod verdict;
pub mod why;
pub mod workers;
