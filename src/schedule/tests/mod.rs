//! Tests of this crate.

mod calendars;
mod decisions;
mod processes;
