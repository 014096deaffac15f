//! The limits of reading, in one place. Data files are foreign: whatever could grow has an end.

/// Records looked at to tell the types of columns.
pub const SAMPLE_RECORDS: u64 = 10_000;

/// Text looked at to tell the types of columns, in bytes.
pub const SAMPLE_BYTES_MAX: u64 = 256 << 20;

/// Longest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Longest JSON document, in bytes.
pub const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

/// Text of the records of one batch, in bytes; keeps a text column below Arrow's 2 GiB.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// Levels of lists and objects inside one JSON value.
pub const JSON_DEPTH_MAX: usize = 128;

/// Levels of lists and structs inside the type of one column; deeper values stay JSON text.
pub const TYPE_DEPTH_MAX: usize = 16;

/// Fields of a struct inside a column; an object with more is a map and stays JSON text.
pub const STRUCT_FIELDS_MAX: usize = 256;

/// Columns of a table.
pub const COLUMNS_MAX: usize = 4_096;

/// Files of one `read`.
pub const FILES_MAX: usize = 100_000;

/// Part of a record kept in an error row, in characters.
pub const RAW_CHARS_MAX: usize = 2_000;

/// Names of ignored fields kept for the summary.
pub const IGNORED_NAMES_MAX: usize = 100;

/// How many times larger than its file decompressed text may be …
pub const EXPANSION_MAX: u64 = 1_000;

/// … once it is longer than this, in bytes.
pub const EXPANSION_FREE_BYTES: u64 = 64 << 20;

/// Largest zstd window, as a power of two: 128 MiB, what the `zstd` tool takes by default.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;
