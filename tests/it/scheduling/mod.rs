//! Schedules: what users write, what the commands show, and processes that start runs together.

mod alerts;
mod commands;
mod mail;
mod processes;
