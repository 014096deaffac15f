//! Settings of the stage kinds, one file a kind.

pub mod compare;
pub mod index;
pub mod measure;
pub mod read;
pub mod retrieve;
pub mod sql;
pub mod statistics;
pub mod write;
