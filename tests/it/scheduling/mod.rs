//! Schedules: what users write, what the commands show, and processes that start runs together.

mod commands;
mod processes;
