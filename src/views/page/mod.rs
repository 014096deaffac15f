//! Pages about a run or a schedule: everything that a reader of a night wants to see, for the terminal, as JSON, or as HTML.

pub mod changed;
pub mod html;
pub mod metrics;
pub mod run;
pub mod schedule;
