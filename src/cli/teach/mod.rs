//! `proofmill teach`: what users say about facts, reasoning and answers, into a memory of the store.

pub mod args;
mod proof;
mod shown;
mod told;

pub use told::teach;
