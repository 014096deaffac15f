//! Files of the host, turned into typed record batches and error rows. Knows the settings of
//! `read`; knows neither the store nor the engine, and blocks while it reads.

mod build;
mod cells;
mod columns;
mod delimited;
mod detect;
mod document;
mod each;
mod encoding;
mod error;
mod error_rows;
mod field_path;
mod held;
mod ignored;
mod infer;
mod json;
mod kind;
mod limits;
mod lines;
mod locate;
mod open;
mod parquet;
mod parquet_columns;
mod partition;
mod read;
mod records;
mod row_id;
mod sample;
mod settings;
mod source;
mod stream;
mod table;
mod walk;

#[cfg(test)]
mod tests;

pub use each::Placed;
pub use error::FilesError;
pub use error_rows::{ErrorClass, ErrorRow, error_batch, error_schema};
pub use ignored::Ignored;
pub use locate::dangling;
pub use open::open;
pub use partition::Partition;
pub use read::{Chunk, Sink, Summary};
pub use source::{Source, SourceFile};
