//! Settings of the stage kinds, one file a kind.

pub mod blend;
pub mod compare;
pub mod decide;
pub mod embed;
pub mod fit;
pub mod generate;
pub mod hypothesize;
pub mod index;
pub mod measure;
pub mod memory;
pub mod prove;
pub mod read;
pub mod report;
pub mod retrieve;
pub mod score;
pub mod search;
pub mod sql;
pub mod statistics;
pub mod teach;
pub mod verify;
pub mod write;
