//! The table of a stage of a past run: its record, and rows.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value as Json;

use crate::report::units::{bytes, date_and_time, plural};
use proofmill_base::styled::printable;
use proofmill_catalog::lineage::inputs_of;
use proofmill_catalog::summary::RunSummary;
use proofmill_store::Artifact;

/// The table of a stage, with those of its rows that were requested. For people the rows are drawn
/// as they come, below [`heading`].
#[derive(Clone, Debug, Serialize)]
pub struct StageView {
    pub artifact: Arc<Artifact>,
    pub rows: Vec<Json>,
}

/// What stands above the rows of a stage of `run`.
pub fn heading(record: &Artifact, run: &RunSummary) -> String {
    let mut text = format!(
        "{} ({}): {}, {}\nfingerprint {}\ncomputed by run {} at {} UTC\n",
        record.stage,
        printable(&record.kind, true),
        plural(record.rows as usize, "row"),
        bytes(record.bytes),
        record.fingerprint,
        record.created_by,
        date_and_time(record.created_at),
    );
    let made_of = made_of(record, run);
    if !made_of.is_empty() {
        text += &format!("made of: {}\n", made_of.join(", "));
    }
    for part in record.parts.iter().chain(&record.errors) {
        text += &format!("  {}  sha256 {}\n", part.key, part.sha256);
    }
    for note in &record.notes {
        text += &format!("note: {}\n", printable(note, true));
    }
    text + "\n"
}

/// The tables that a table was computed from, by their names in `run`, each with its part in the stage.
fn made_of(record: &Artifact, run: &RunSummary) -> Vec<String> {
    let inputs = inputs_of(record).into_iter().map(|(part, input)| {
        let stage = run.stages.iter().find(|stage| stage.fingerprint == Some(input));
        let name = stage.map_or_else(|| input.0.short(), |stage| stage.stage.to_string());
        // In SQL the part is the name.
        if part == name { name } else { format!("{name} ({})", printable(&part, true)) }
    });
    inputs.collect()
}
