//! proofmill: tables all the way from the question to the metric.
//!
//! Modules in reading order, lowest layer first. A module names only modules of lower layers;
//! `tests/it/tree/tidy.rs` keeps it so, and `docs/ARCHITECTURE.md` says what each layer is for.

pub mod draw;

pub mod console;

pub mod sqltext;

pub mod gate;
pub mod graph;
pub mod memory;
pub mod relay;

pub mod models;

pub mod session;

pub mod stages;

pub mod run;

pub mod diff;
pub mod system;
pub mod trace;

pub mod report;

pub mod host;
pub mod views;

pub mod cli;

pub mod reference;
