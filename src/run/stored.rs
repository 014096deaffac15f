//! What a run wants of a stage whose table is stored: its checks again, its numbers at the end.

use proofmill_base::ids::StageName;
use proofmill_pipeline::kinds::StageKind;
use proofmill_store::Artifact;

use crate::stages::plan::{Prepared, PreparedStage};

/// True if the checks of a cached stage are not those that its table passed, or may end otherwise today.
pub fn needs_confirmation(stage: &PreparedStage, artifact: &Artifact) -> bool {
    let checks = &stage.stage.spec.common.checks;
    let definitions = |verdict: &serde_json::Value| verdict.get("definition").cloned();
    let passed: Vec<_> = artifact.checks.iter().filter_map(definitions).collect();
    let wanted: Vec<_> =
        checks.iter().filter_map(|check| serde_json::to_value(check).ok()).collect();
    let elsewhere = checks.iter().any(|c| c.rows.as_ref().is_some_and(|r| r.equal_to.is_some()));
    stage.volatile_checks || elsewhere || wanted != passed
}

/// True for a stage of numbers: `measure`, `compare`, or a union of them that nothing else unites.
pub fn is_result(prepared: &Prepared, name: &StageName) -> bool {
    let stages = &prepared.stages;
    let counts = |name: &StageName| stages[name].is_result;
    let gathered = stages.values().any(|stage| {
        matches!(stage.stage.spec.kind, StageKind::MatrixUnion(_))
            && stage.stage.inputs.iter().any(|input| input.stage == *name)
    });
    match &stages[name].stage.spec.kind {
        StageKind::MatrixUnion(_) => {
            stages[name].stage.inputs.iter().all(|input| counts(&input.stage))
        }
        _ => counts(name) && !gathered,
    }
}
