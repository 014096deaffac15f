//! How much is sent: at a time, and per minute.

pub mod gate;
pub mod window;
