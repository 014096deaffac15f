//! Bytes, Parquet and atomic commit over `object_store`. Knows no pipelines and no DataFusion.
//!
//! Reading order: `layout` (where things lie), `handle` (the [`Store`]), `create` (the one commit
//! primitive), `numbered` and `open_log` (logs that no process owns), `log` (that of a run), `artifact`, `manifest`, then `part_writer` and `part_reader`. The local folder
//! is made durable by `durable_local`, `flusher` and `disk`. Formats: `docs/specs/store.md`.

mod artifact;
mod bulk;
mod canonical_row;
mod chain;
mod claim;
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
mod listing;
mod local_read;
mod local_upload;
mod location;
mod log;
mod log_entry;
mod log_reader;
mod manifest;
mod numbered;
mod obstacle;
mod open_log;
mod opening;
mod overlay;
mod part;
mod part_reader;
mod part_sink;
mod part_writer;
mod rows_root;
mod runs;
mod sealed;
mod sources;
mod staging;
#[cfg(test)]
mod tests;
mod upload;

pub use artifact::{
    ARTIFACT_VERSION, Artifact, Lookup, StageUsage, artifact_bytes, find, find_current, find_exact,
    find_many, keep_aside, publish, read_artifact, replace,
};
pub use canonical_row::for_each_row;
pub use claim::{Beat, Claim, ClaimWatch, Life, Pulse, last_beat, life, order_stop};
pub use columns::{Column, columns_of, schema_from_hex, schema_to_hex};
pub use create::Created;
pub use durable_local::DurableLocal;
pub use error::StoreError;
pub use format::{FORMAT_VERSION, Format};
pub use handle::Store;
pub use layout::{
    Attempt, Claimed, Key, RelayKey, RelayObject, artifact_key, artifacts_prefix,
    checkpoint_note_key, checkpoint_notes_prefix, error_part_key, file_key, format_key,
    ledger_prefix, ledger_segment_key, manifest_key, memories_prefix, part_key, relay_prefix,
    runs_prefix, schedules_prefix, workers_prefix,
};
pub(crate) use layout::{replaced_artifact_key, source_key};
pub use location::Location;
pub use log::{RunLog, writer_name};
pub use log_entry::{Body, Entry, Head, LOG_VERSION};
pub use log_reader::{read_log, read_log_to_head};
pub use manifest::{
    LocalUsage, MANIFEST_VERSION, Machine, Manifest, ModelUsage, Outcome, PipelineRef, RecordRef,
    ReportedModel, ReportedModels, RunPart, Session, StageOutcome, StageStatus, Trigger,
    publish_manifest, read_manifest, reported_extension,
};
pub use numbered::{Extent, LogFolder, Numbered};
pub use open_log::{
    APPEND_ATTEMPTS_MAX, Appended, ChainOnly, LogRecord, OpenLog, OpenLogError, Position,
    StoredEntry,
};
pub use part::{NamedFile, Part};
pub use part_reader::{decode_part, read_part, stream_part, verify_file, verify_part};
pub use part_sink::PartSink;
pub use part_writer::{PartWriter, write_file};
pub use rows_root::{ROOTED_ROWS_MAX, RowLeaves};
pub use runs::run_ids;
pub use sealed::{Extensions, Record, Stored, seal, unseal};
pub use sources::{SourceRef, SourceRefs, SourceRole, keep_sources, read_source};
pub use upload::PieceUpload;
