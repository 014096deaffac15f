//! Which runs and metrics rest on what was found.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;
use proofmill_store::{Artifact, Store, StoreError, find_exact};

use crate::finding::{Finding, RestingMetric};
use crate::verify::runs::StagesOfRuns;

/// Names, for each finding, the runs with a table that the object is a part of, and the stages with metrics that such a
/// table is upstream of. Reads records only if there is a finding.
pub(super) async fn name(
    store: &Store,
    stages: &StagesOfRuns,
    findings: &mut [Finding],
) -> Result<(), StoreError> {
    if findings.is_empty() {
        return Ok(());
    }
    let wanted: HashSet<String> = findings.iter().map(|finding| finding.object.clone()).collect();
    let mut resting: BTreeMap<String, (BTreeSet<RunId>, BTreeSet<RestingMetric>)> = BTreeMap::new();
    let mut records: HashMap<Digest, Option<Arc<Artifact>>> = HashMap::new();
    for (run, stages) in stages {
        // Upstream tables by their fingerprints, in the order of the run.
        let mut of_run = Vec::new();
        for (ended, has_metrics) in stages {
            let (Some(fingerprint), Some(named)) = (&ended.fingerprint, &ended.artifact) else {
                continue;
            };
            let record = match records.get(&named.sha256) {
                Some(known) => known.clone(),
                None => {
                    let found = find_exact(store, fingerprint, named.sha256).await.ok();
                    let found = found.map(|stored| stored.record);
                    records.insert(named.sha256, found.clone());
                    found
                }
            };
            of_run.push((ended, *has_metrics, named, record));
        }
        for object in &wanted {
            let is_named = |record: &Option<Arc<Artifact>>| {
                record
                    .iter()
                    .flat_map(|record| record.objects())
                    .any(|(key, _)| key.as_str() == object)
            };
            let mut touched: HashSet<String> = HashSet::new();
            for (ended, _, named, record) in &of_run {
                if named.key.as_str() == object || is_named(record) {
                    touched.extend(ended.fingerprint.iter().map(ToString::to_string));
                }
            }
            if touched.is_empty() {
                continue;
            }
            let (runs, metrics) = resting.entry(object.clone()).or_default();
            runs.insert(run.clone());
            // Each pass takes one more step downstream; stages of a run are few.
            loop {
                let before = touched.len();
                for (ended, _, _, record) in &of_run {
                    let inputs = record.iter().flat_map(|record| record.components.iter());
                    let mut inputs = inputs.filter(|(name, _)| name.starts_with("input."));
                    if inputs.any(|(_, fingerprint)| touched.contains(fingerprint)) {
                        touched.extend(ended.fingerprint.iter().map(ToString::to_string));
                    }
                }
                if touched.len() == before {
                    break;
                }
            }
            for (ended, has_metrics, _, _) in &of_run {
                let rests = ended.fingerprint.iter().any(|it| touched.contains(&it.to_string()));
                if *has_metrics && rests {
                    metrics.insert(RestingMetric { run: run.clone(), stage: ended.stage.clone() });
                }
            }
        }
    }
    for finding in findings {
        if let Some((runs, metrics)) = resting.remove(&finding.object) {
            let all: BTreeSet<RunId> = finding.runs.drain(..).chain(runs).collect();
            finding.runs = all.into_iter().collect();
            finding.metrics = metrics.into_iter().collect();
        }
    }
    Ok(())
}
