//! A model on this machine: opened from a folder, asked by any number of threads.

mod open;
mod prepare;
mod settings;

pub use open::{Model, OpenError};
pub use settings::Settings;
