//! When runs are due.
//!
//! Reading order: `file` (what users write), `calendar` (the planned instants of a pattern in a zone), `state` (what is known of
//! a schedule, and the events that change it), `alerts` (messages about nights), `decision` (what becomes of instants that are due), `log` (a schedule in the
//! store, where all processes see one order). Nothing here starts a run. Specification: `docs/specs/schedules.md`.

pub mod alerts;
pub mod calendar;
pub mod decision;
pub mod file;
pub mod log;
pub mod state;

#[cfg(test)]
mod tests;
