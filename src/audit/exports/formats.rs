//! The closed list of formats.

use proofmill_base::error::Result;
use serde_json::Value as Json;

use crate::exports::exported_run::ExportedRun;
use crate::exports::{lineage, provenance, statement, test_result};
use crate::note::Signer;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// The test-result predicate of in-toto, in a DSSE envelope.
    InToto,
    /// The provenance predicate of SLSA, in a DSSE envelope.
    Slsa,
    /// Events of OpenLineage, one a line.
    OpenLineage,
}

/// A run in a format; statements are signed if there is a key.
///
/// # Errors
///
/// If the run made nothing that the format can speak of.
pub fn export(run: &ExportedRun, format: ExportFormat, signer: Option<&Signer>) -> Result<String> {
    match format {
        ExportFormat::InToto => statement::written(&test_result::statement(run)?, signer),
        ExportFormat::Slsa => statement::written(&provenance::statement(run)?, signer),
        ExportFormat::OpenLineage => lineage::events(run).map(|events| lines(&events)),
    }
}

fn lines(events: &[Json]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}
