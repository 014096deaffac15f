//! The `test-result` predicate (v0.1) of in-toto: which stages and checks passed, for what was evaluated.

use std::collections::BTreeSet;

use proofmill_base::error::Result;
use proofmill_catalog::audit::entry::Ending;
use serde_json::{Value as Json, json};

use crate::exports::exported_run::ExportedRun;
use crate::exports::statement::Statement;

const PREDICATE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// The statement about a run. Its subject is what was evaluated: models and files with a digest, or else the pipeline.
pub(super) fn statement(run: &ExportedRun) -> Result<Statement> {
    let (mut passed, mut warned, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (ended, table) in &run.tables {
        passed.push(ended.stage.to_string());
        if ended.error_rows > 0 {
            warned.push(format!("{}: {} rows failed", ended.stage, ended.error_rows));
        }
        for check in &table.record.checks {
            let text = |name: &str| check.get(name).and_then(Json::as_str);
            let name = format!("{}: {}", ended.stage, text("check").unwrap_or("check"));
            match (check.get("violations").and_then(Json::as_u64), text("severity")) {
                (Some(0), _) => passed.push(name),
                (_, Some("warn")) => warned.push(name),
                _ => failed.push(name),
            }
        }
    }
    for failure in &run.run.failed {
        passed.retain(|stage| *stage != failure.stage);
        failed.push(failure.stage.clone());
    }
    for names in [&mut passed, &mut warned, &mut failed] {
        // The same check may be written twice.
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
    }
    let result = match (run.how, warned.is_empty() && failed.is_empty()) {
        (Ending::Succeeded, true) => "PASSED",
        (Ending::Succeeded, false) => "WARNED",
        _ => "FAILED",
    };
    let predicate = json!({
        "result": result,
        "configuration": run.source_resources(),
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": failed,
    });
    let outer = run.outer_resources();
    let subject = if outer.is_empty() { run.source_resources() } else { outer };
    Statement::of(subject, PREDICATE, predicate)
}
