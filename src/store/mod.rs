//! Bytes, Parquet and atomic commit over `object_store`. Knows no pipelines and no DataFusion.
//!
//! Reading order: `layout` (where things lie), `handle` (the [`Store`]), `create` (the one commit
//! primitive), `log`, `artifact`, `manifest`, then `part_writer` and `part_reader`. The local folder
//! is made durable by `durable_local`, `flusher` and `disk`. Formats: `docs/specs/store.md`.

mod artifact;
mod bulk;
mod chain;
mod columns;
mod create;
mod disk;
mod durable_local;
mod error;
#[cfg(any(test, feature = "faulty"))]
#[expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
pub mod faulty;
mod flusher;
mod format;
mod handle;
mod layout;
mod lease;
mod listing;
mod local_read;
mod local_upload;
mod location;
mod log;
mod log_entry;
mod log_reader;
mod manifest;
mod obstacle;
mod opening;
mod part;
mod part_reader;
mod part_sink;
mod part_writer;
mod runs;
mod sealed;
mod staging;
#[cfg(test)]
mod tests;
mod upload;

pub use artifact::{
    ARTIFACT_VERSION, Artifact, Lookup, StageUsage, find, find_exact, find_many, keep_aside,
    publish, replace,
};
pub use columns::{Column, columns_of, schema_from_hex, schema_to_hex};
pub use create::Created;
pub use durable_local::DurableLocal;
pub use error::StoreError;
pub use format::{FORMAT_VERSION, Format};
pub use handle::Store;
pub use layout::{
    Attempt, Key, artifact_key, error_part_key, file_key, format_key, ledger_checkpoint_key,
    ledger_log_key, ledger_log_prefix, ledger_segment_key, log_key, manifest_key, memories_prefix,
    memory_key, memory_prefix, part_key,
};
pub(crate) use layout::{lease_key, lock_key, replaced_artifact_key};
pub use lease::{Lease, Life, life};
pub use location::Location;
pub use log::RunLog;
pub use log_entry::{Body, Entry, Head, LOG_VERSION};
pub use log_reader::read_log;
pub use manifest::{
    LocalUsage, MANIFEST_VERSION, Machine, Manifest, ModelUsage, Outcome, PipelineRef, RecordRef,
    Session, StageOutcome, StageStatus, publish_manifest, read_manifest,
};
pub use part::{NamedFile, Part};
pub use part_reader::{decode_part, read_part, stream_part, verify_file, verify_part};
pub use part_sink::PartSink;
pub use part_writer::{PartWriter, write_file};
pub use runs::{Latest, latest_manifest, newest_published, run_ids};
pub use sealed::{Record, Stored, seal, unseal};
pub use upload::PieceUpload;
