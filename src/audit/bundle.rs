//! What a bundle says: the proof of a number as `bundle.json` has it, and how far each property is proved.

use std::collections::BTreeMap;

use proofmill_base::digest::Digest;
use proofmill_base::ids::{RunId, StageName};
use proofmill_store::{Artifact, Key, Manifest, Stored};
use serde::Serialize;
use serde_json::Value as Json;

use crate::checkpoint::Anchor;
use crate::timestamp::Stamp;

/// How the components of a record end that name the weights of a model, and the address of an endpoint.
const WEIGHTS: &str = ".weights";
const ENDPOINT: &str = ".url";
/// The version of bundles that this program writes.
pub const BUNDLE_VERSION: u32 = 1;

/// A proof, as `bundle.json` has it.
#[derive(Clone, Debug, Serialize)]
pub struct Bundle {
    pub v: u32,
    pub run: RunId,
    pub stage: StageName,
    /// The metrics as the manifest has them; none of a stage whose rows are the numbers.
    pub metrics: Vec<Json>,
    /// The settings of the stage: what is measured, and how.
    pub settings: BTreeMap<String, String>,
    pub manifest: NamedRecord,
    /// The record of the stage's own table.
    pub record: NamedRecord,
    pub measured: Vec<Measured>,
    /// The records of the tables upstream of these, which name models, prompts and sources by their digests.
    pub upstream: Vec<UpstreamTable>,
    /// The path of one item through these tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<Item>,
    pub entries: Vec<ProvedEntry>,
    /// Entries of the audit log that the checkpoint names.
    pub size: u64,
    pub properties: Vec<Property>,
}

/// A record of the store in the folder `records` of a bundle.
#[derive(Clone, Debug, Serialize)]
pub struct NamedRecord {
    pub key: Key,
    pub sha256: Digest,
}

impl NamedRecord {
    pub(crate) fn of<T>(stored: &Stored<T>) -> Self {
        Self { key: stored.key.clone(), sha256: stored.sha256 }
    }
}

/// A table that was measured; or that of the stage itself, if its rows are the numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The input that it was, by its name among the components; `None` for the stage's own table.
    pub input: Option<String>,
    pub stage: StageName,
    pub record: NamedRecord,
    pub rows: u64,
    pub root: Digest,
    /// The file with its rows.
    pub file: String,
}

/// A table that a measured one was made of, through any number of others.
#[derive(Clone, Debug, Serialize)]
pub struct UpstreamTable {
    pub stage: StageName,
    pub record: NamedRecord,
}

/// The rows of an item.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    pub id: String,
    pub tables: Vec<RowsOfItem>,
}

/// The rows of an item in a table, or the facts that they name.
#[derive(Clone, Debug, Serialize)]
pub struct RowsOfItem {
    pub stage: StageName,
    pub record: NamedRecord,
    /// Of the whole table.
    pub rows: u64,
    pub of_item: u64,
    pub root: Digest,
    /// The file with the rows of the item.
    pub file: String,
}

/// An entry of the audit log, with its path to the root of the checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct ProvedEntry {
    pub seq: u64,
    pub key: Key,
    pub path: Vec<Digest>,
}

/// Something that a reader may want to rely on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Property {
    pub property: &'static str,
    pub status: Status,
    /// By what, or why not.
    pub why: String,
}

/// How far a property is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// By digests and signatures in the bundle.
    Attested,
    /// The store says so, and nothing proves it.
    Asserted,
    NotCovered,
}

impl Status {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Attested => "attested",
            Self::Asserted => "asserted",
            Self::NotCovered => "not covered",
        }
    }
}

/// The properties of a number of `manifest`, whose tables upstream have these records. `is_logged` says whether an entry names the manifest, in the log that `anchor` is of.
pub(crate) fn properties(
    manifest: &Manifest,
    anchor: &Anchor,
    stamp: Option<&Stamp>,
    is_logged: bool,
    measured: &[Measured],
    records: &[&Artifact],
) -> Vec<Property> {
    let texts: Vec<bool> = manifest.sources.values().map(|source| source.stored).collect();
    let has = |part: &str| {
        let names = records.iter().flat_map(|record| record.components.keys());
        names.into_iter().any(|name| name.starts_with("model.") && name.ends_with(part))
    };
    let weights = has(WEIGHTS).then_some((
        "weights of models",
        Status::Attested,
        "records upstream have the digests of their folders",
    ));
    let endpoints = has(ENDPOINT).then_some((
        "models behind endpoints",
        Status::Asserted,
        "an endpoint says which model answers",
    ));
    let stamped = stamp.filter(|_| is_logged).map(|Stamp { time, .. }| {
        let time = time.format("%Y-%m-%d %H:%M:%S UTC");
        format!("a timestamp authority attests that the log with it existed by {time}")
    });
    let all = [
        Some(match is_logged {
            true => ("the number", Status::Attested, "the log names the manifest that has it"),
            false => ("the number", Status::Asserted, "no entry of the log names its manifest"),
        }),
        Some(match (is_logged, anchor.is_signed()) {
            (false, _) => ("the run is in the log", Status::NotCovered, "no entry names it"),
            (true, true) => {
                ("the run is in the log", Status::Attested, "its entries are in the signed log")
            }
            (true, false) => ("the run is in the log", Status::Asserted, "the log is unsigned"),
        }),
        Some(match measured.is_empty() {
            false => ("the rows that it counts", Status::Attested, "each has a path to its table"),
            true => ("the rows that it counts", Status::NotCovered, "no table is named"),
        }),
        Some(match (texts.contains(&true), texts.contains(&false)) {
            (false, _) => ("pipeline and code", Status::NotCovered, "the run kept no texts"),
            (true, false) => {
                ("pipeline and code", Status::Attested, "by digests; the store has all texts")
            }
            (true, true) => {
                ("pipeline and code", Status::Attested, "by digests; the store lacks some texts")
            }
        }),
        weights,
        endpoints,
        Some((
            "the number follows from the rows",
            Status::Asserted,
            "`proofmill audit replay` computes it again",
        )),
        Some(match anchor.is_signed() {
            true => ("who vouches for the log", Status::Attested, "the owner of the key"),
            false => ("who vouches for the log", Status::NotCovered, "no key signed it"),
        }),
        Some(("who ran it", Status::NotCovered, "a run has no signature of its own")),
        Some(match &stamped {
            Some(stamped) => ("by when it ran", Status::Attested, stamped.as_str()),
            None => (
                "by when it ran",
                Status::Asserted,
                "by the clock of its machine; no timestamp is part of the bundle",
            ),
        }),
        Some(("licence of the data", Status::NotCovered, "nothing here says")),
    ];
    let property = |(property, status, why): (&'static str, Status, &str)| Property {
        property,
        status,
        why: why.to_owned(),
    };
    all.into_iter().flatten().map(property).collect()
}
