//! Files of the host, turned into typed record batches and error rows, and rows turned into files. Knows the
//! settings of `read`; knows neither the store nor the engine, and blocks while it reads.

mod build;
mod cells;
mod chunk;
mod columns;
mod declared;
mod delimited;
mod detect;
mod document;
mod each;
mod encoding;
mod error;
mod error_rows;
mod field_path;
mod format;
mod held;
mod ignored;
mod infer;
mod json;
mod kind;
mod limits;
mod lines;
mod links;
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
mod source_file;
mod stream;
mod table;
mod walk;
mod write;

#[cfg(test)]
mod tests;

pub use chunk::{Chunk, Sink, Summary};
pub use declared::{DeclaredRows, ERROR_FIELD, declared_schema};
pub use each::Placed;
pub use error::FilesError;
pub use error_rows::{ErrorClass, ErrorRow, Fault, error_batch, error_schema};
pub use format::{FORMATS, traits};
pub use ignored::Ignored;
pub use limits::RECORD_BYTES_MAX;
pub use links::dangling;
pub use open::open;
pub use parquet_columns::{ColumnMismatch, mismatches};
pub use partition::Partition;
pub use source::Source;
pub use source_file::SourceFile;
pub use write::{RowsAsText, WriteError, check_columns, endings, format_of, write_rows};
