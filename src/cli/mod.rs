//! The command line: arguments in, library calls, output. Data goes to standard output, everything
//! else to standard error.

pub mod args;
mod attribute;
pub mod audit;
pub mod check;
pub mod completions;
pub mod diff;
mod display;
pub mod environment;
pub mod errors;
pub mod exit;
pub mod explain;
pub mod functions;
pub mod gate;
pub mod init;
pub mod ledger;
pub mod log;
pub mod output;
pub mod pager;
pub mod plan;
pub mod project;
pub mod report;
pub mod rows;
mod run;
pub mod runs;
pub mod schedule;
pub mod schema;
pub mod show;
pub mod show_models;
pub mod sql;
pub mod start;
pub mod stop;
pub mod teach;
pub mod test;
pub mod trends;
pub mod values;
pub mod why;
