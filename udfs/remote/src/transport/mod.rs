//! One HTTP exchange: where to, with what, and what came of it.

pub mod client;
pub mod failure;
pub mod place;
pub mod words;
