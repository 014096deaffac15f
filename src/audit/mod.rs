//! Evidence for strangers: whether a store is what was written, by checks that change nothing and need no engine.
//!
//! Reading order: `note` and `key_file` (keys and signatures), `checkpoint` (what a log was at a time), `finding` (what can be wrong),
//! `timestamp` (by when it was), `verify`, `roots` (of tables whose records have none), `bundle`, `proved_rows` and `prove` (a
//! number, in a folder that needs no store), `exports` (a run in the formats of other tools). The log itself is in the catalog. Specification: `docs/specs/audit-log.md`.

/// A second implementation of the verification, in Python, without code of this one.
pub const SECOND_VERIFIER: &str = include_str!("verify.py");

pub mod bundle;
pub mod checkpoint;
pub mod exports;
pub mod finding;
pub mod key_file;
pub mod note;
pub mod prove;
mod proved_rows;
pub mod roots;
pub mod timestamp;
pub mod verify;
