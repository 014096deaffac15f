//! Rows of stored tables: read back, and under the types that computations need.

pub mod columns;
pub mod export;
pub mod metrics;
pub mod outside;
pub mod paired;
pub mod query;
pub mod results;
pub mod rows;
pub mod values;
pub mod vectors;
