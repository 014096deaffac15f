//! Tests of reading as a whole, by format and by what can go wrong.

mod delimited;
mod locating;
mod objects;
mod parquet;
mod properties;
mod streams;
mod support;
