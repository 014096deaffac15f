//! What a run wants of a stage whose table is stored: its checks again, its numbers at the end.

use proofmill_base::ids::StageName;
use proofmill_pipeline::role::KindRole;
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

/// True for a stage of numbers: `measure`, `compare`, or a union of them that no other union contains.
pub fn is_result(prepared: &Prepared, name: &StageName) -> bool {
    let (stages, role) = (&prepared.stages, |stage: &PreparedStage| stage.stage.spec.kind.role());
    let reads = |stage: &PreparedStage, input: &StageName| {
        stage.stage.inputs.iter().any(|it| it.stage == *input)
    };
    let stage = &stages[name];
    match role(stage) {
        KindRole::Union => {
            stage.stage.inputs.iter().all(|input| role(&stages[&input.stage]).is_result())
        }
        other => {
            let mut unions = stages.values().filter(|other| role(other) == KindRole::Union);
            other.is_result() && !unions.any(|union| reads(union, name))
        }
    }
}
