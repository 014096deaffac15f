//! What two runs were made of: parameters, code, files, and stage by stage what changed and why.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;

use crate::run::reason::{Change, Reason};
use crate::stages::load::Draft;
use crate::stages::stored_tables::PinnedTables;
use proofmill_base::error::Result;
use proofmill_base::ids::{Fingerprint, StageName};
use proofmill_catalog::lineage::inputs_of;
use proofmill_catalog::summary::{RunOrigin, RunSummary, artifact};
use proofmill_pipeline::project::plain;
use proofmill_pipeline::role::KindRole;
use proofmill_store::{Artifact, StageOutcome, Store, Stored};

/// A run with the records of what its stages gave.
pub struct Side {
    pub run: RunSummary,
    /// Stages that have a table or files, in the order of the run.
    pub stages: IndexMap<StageName, (StageOutcome, Stored<Artifact>)>,
}

impl Side {
    /// Reads the records of a run.
    ///
    /// # Errors
    ///
    /// When one is not in the store any more or is damaged, or the store fails.
    pub async fn open(run: RunSummary, store: &Store) -> Result<Self> {
        let mut stages = IndexMap::new();
        for outcome in run.tables() {
            if let Some(found) = artifact(store, outcome).await? {
                stages.insert(outcome.stage.clone(), (outcome.clone(), found));
            }
        }
        Ok(Self { run, stages })
    }

    /// What a stage gave.
    pub fn record(&self, stage: &StageName) -> Option<&Artifact> {
        self.stages.get(stage).map(|(_, found)| found.record.as_ref())
    }

    /// The stage of this run with a fingerprint.
    pub fn stage_of(&self, fingerprint: &str) -> Option<&Artifact> {
        let fits = |found: &Fingerprint| found.to_string() == fingerprint;
        let mut records = self.stages.values().map(|(_, found)| found.record.as_ref());
        records.find(|record| fits(&record.fingerprint))
    }

    /// The tables of its stages whose rows come from outside, for a pipeline that is to have the same.
    pub fn outside(&self, draft: &Draft) -> PinnedTables {
        let found = draft.outside().filter_map(|(name, _)| {
            let (_, found) = self.stages.get(name)?;
            Some((name.clone(), Arc::clone(&found.record)))
        });
        found.collect()
    }

    /// The stage whose answers a table comes from: itself, or the nearest one upstream; `None` if no stage answers.
    pub fn answers_of<'a>(&'a self, table: &'a Artifact) -> Option<&'a Artifact> {
        let (mut next, mut seen) = (VecDeque::from([table]), BTreeSet::new());
        while let Some(record) = next.pop_front() {
            if KindRole::of(&record.kind).is_some_and(KindRole::is_answer) {
                return Some(record);
            }
            if seen.insert(record.fingerprint) {
                let inputs = inputs_of(record).into_iter();
                next.extend(inputs.filter_map(|(_, input)| self.stage_of(&input.to_string())));
            }
        }
        None
    }

    /// Whether some stage has answers of an endpoint.
    pub fn has_endpoints(&self) -> bool {
        let is_address = |part: &String| {
            !part.starts_with("settings.") && part.contains("model.") && part.ends_with(".url")
        };
        self.stages.values().any(|(_, found)| found.record.components.keys().any(is_address))
    }
}

/// What became of a stage from one run to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// The same table.
    Same,
    /// Another table.
    Changed,
    OnlyA,
    OnlyB,
}

/// A stage in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct StageDiff {
    pub stage: StageName,
    pub kind: String,
    pub state: StageState,
    /// What counts for the stage itself and differs: settings, sources, models, versions. Empty where only its
    /// inputs differ, or where the same was computed again and came out otherwise.
    pub changes: Vec<Change>,
    /// Inputs whose tables differ, as the stage calls them.
    pub inputs: Vec<String>,
    /// Rows in either run.
    pub rows: [Option<u64>; 2],
    pub error_rows: [Option<u64>; 2],
}

/// What two runs were made of.
#[derive(Clone, Debug, Serialize)]
pub struct RunsDiff {
    pub params: Vec<Change>,
    /// Versions of the code that took part.
    pub code: Vec<Change>,
    /// The pipeline file and its templates, by their digests.
    pub files: Vec<Change>,
    pub stages: Vec<StageDiff>,
}

/// Compares two runs.
pub fn runs(a: &Side, b: &Side) -> RunsDiff {
    let params = |side: &Side| -> BTreeMap<String, String> {
        side.run.params.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
    };
    let of = |side: &Side, what: fn(&RunOrigin) -> BTreeMap<String, String>| {
        side.run.origin.as_ref().map(what).unwrap_or_default()
    };
    let code = |origin: &RunOrigin| origin.code.clone();
    let files = |origin: &RunOrigin| {
        let templates = origin.templates.iter();
        let templates = templates.map(|(name, digest)| (name.clone(), digest.to_string()));
        let file = ("pipeline file".to_owned(), origin.file.yaml_sha256.to_string());
        templates.chain([file]).collect()
    };
    let mut stages: Vec<StageDiff> =
        b.stages.keys().map(|name| stage(name, a.record(name), b.record(name))).collect();
    let gone = a.stages.keys().filter(|name| !b.stages.contains_key(*name));
    stages.extend(gone.map(|name| stage(name, a.record(name), None)));
    RunsDiff {
        params: changes(&params(a), &params(b)),
        code: changes(&of(a, code), &of(b, code)),
        files: changes(&of(a, files), &of(b, files)),
        stages,
    }
}

fn changes(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Change> {
    match Reason::compare(a, b) {
        Reason::Changed(changes) => changes,
        _ => Vec::new(),
    }
}

fn stage(name: &StageName, a: Option<&Artifact>, b: Option<&Artifact>) -> StageDiff {
    let (mut inputs, mut own) = (Vec::new(), Vec::new());
    let state = match (a, b) {
        (Some(a), Some(b)) if a.digest() == b.digest() => StageState::Same,
        (Some(a), Some(b)) => {
            own = changes(&a.components, &b.components);
            own.retain(|change| !change.component.starts_with("input."));
            inputs = changed_inputs(a, b);
            StageState::Changed
        }
        (Some(_), None) => StageState::OnlyA,
        (None, _) => StageState::OnlyB,
    };
    let count = |of: fn(&Artifact) -> u64| [a.map(of), b.map(of)];
    StageDiff {
        stage: name.clone(),
        kind: b.or(a).map(|record| record.kind.clone()).unwrap_or_default(),
        state,
        changes: own,
        inputs,
        rows: count(|record| record.rows),
        error_rows: count(|record| record.errors.iter().map(|part| part.rows).sum()),
    }
}

/// Inputs of both that are other tables; where a record does not say which tables it was made of, those with
/// other fingerprints.
fn changed_inputs(a: &Artifact, b: &Artifact) -> Vec<String> {
    let labels = b.components.keys().filter_map(|name| name.strip_prefix("input."));
    let table = |of: &Artifact, label: &str| {
        let name = format!("input.{label}");
        let digest = of.inputs.as_ref().and_then(|inputs| inputs.get(&name));
        digest.map(ToString::to_string).or_else(|| of.components.get(&name).cloned())
    };
    labels.filter(|label| table(a, label) != table(b, label)).map(str::to_owned).collect()
}
