//! Whether a store is what was written: changes nothing, decodes nothing before its digest, and goes on after a finding.
//!
//! Reading order: `scope`, `journal` (of one that was interrupted), `all` (the whole), `entries` (the audit log and its anchors), `runs` (records of runs, and what they
//! name), `others` (ledger, memories, records that no run names), `objects` (digests), `tables` (rows), `dependants` (which
//! runs and metrics rest on a finding).

pub mod all;
mod dependants;
mod entries;
pub mod journal;
mod objects;
mod others;
mod runs;
pub mod scope;
mod tables;
