//! Events of OpenLineage (2-0-2): a job and a run for the pipeline, and one for each of its stages.

use arrow::datatypes::FieldRef;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use proofmill_base::digest::{Digest, hex};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::audit::entry::Ending;
use proofmill_catalog::lineage::INPUT;
use proofmill_store::{Artifact, StageOutcome, StageStatus};
use serde_json::{Value as Json, json};

use crate::exports::exported_run::{ExportedRun, outer};

const EVENT: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";
const PRODUCER: &str = "urn:proofmill";
/// The namespace of jobs.
const JOBS: &str = "proofmill";

/// The events of a run: it starts; each of its stages starts and ends, with the tables that it read and wrote; it ends.
///
/// # Errors
///
/// If no time of the run is known.
pub(super) fn events(run: &ExportedRun) -> Result<Vec<Json>> {
    let summary = &run.run;
    let (Some(started), Some(finished)) = (summary.started_at, run.finished_at) else {
        let message = format!("the records of run {} do not say when it ran", summary.run);
        return Err(Error::new(ErrorKind::Usage, message));
    };
    let own = uuid(&format!("{}/{}", run.store, summary.run));
    let job = json!({ "namespace": JOBS, "name": summary.pipeline,
        "facets": { "jobType": job_type("PIPELINE") } });
    let engine = facet(
        "1-1-1",
        "ProcessingEngineRunFacet",
        json!({
            "name": "proofmill", "version": run.version,
        }),
    );
    let of_run = |kind: &str, time, facets: Json| {
        json!({ "eventType": kind, "eventTime": written(time), "producer": PRODUCER, "schemaURL": EVENT,
            "run": { "runId": own, "facets": facets }, "job": job.clone(), "inputs": [], "outputs": [] })
    };
    let mut events = vec![of_run("START", started, json!({ "processing_engine": engine }))];
    let parent = facet(
        "1-2-0",
        "ParentRunFacet",
        json!({
            "run": { "runId": own }, "job": { "namespace": JOBS, "name": summary.pipeline },
        }),
    );
    let mut stage = |ended: &StageOutcome, ends: &str, facets: Json, data: [Vec<Json>; 2]| {
        let mut facets = facets;
        facets["parent"] = parent.clone();
        let name = format!("{}.{}", summary.pipeline, ended.stage);
        let id = uuid(&format!("{}/{}/{}", run.store, summary.run, ended.stage));
        let [inputs, outputs] = data;
        for (kind, time) in [("START", started), (ends, ended_at(ended, started, finished))] {
            let is_end = kind == ends;
            let of = |data: &Vec<Json>| if is_end { data.clone() } else { Vec::new() };
            events.push(
                json!({ "eventType": kind, "eventTime": written(time), "producer": PRODUCER,
                "schemaURL": EVENT,
                "run": { "runId": id, "facets": facets },
                "job": { "namespace": JOBS, "name": name, "facets": job_facets(ended, run) },
                "inputs": of(&inputs), "outputs": of(&outputs) }),
            );
        }
    };
    for (ended, table) in &run.tables {
        let failed = summary.failed.iter().find(|it| it.stage == ended.stage.as_str());
        let (ends, facets) = match failed {
            None => ("COMPLETE", json!({})),
            Some(failure) => ("FAIL", json!({ "errorMessage": error(&failure.message) })),
        };
        let data = [inputs(run, &table.record), vec![output(run, ended, &table.record)]];
        stage(ended, ends, facets, data);
    }
    let (kind, facets) = match run.how {
        Ending::Succeeded => ("COMPLETE", json!({})),
        Ending::Stopped => ("ABORT", json!({})),
        Ending::Failed | Ending::Killed | Ending::NotBegun => {
            let reasons = summary.failed.iter().map(|it| format!("{}: {}", it.stage, it.message));
            let reasons = reasons.collect::<Vec<_>>().join("\n");
            ("FAIL", json!({ "errorMessage": error(&reasons) }))
        }
    };
    events.push(of_run(kind, finished, facets));
    Ok(events)
}

/// When a stage ended, as far as its records say: a stage that was cached took no time.
fn ended_at(
    ended: &StageOutcome,
    started: DateTime<Utc>,
    finished: DateTime<Utc>,
) -> DateTime<Utc> {
    let took = i64::try_from(ended.wall_ms).ok().and_then(TimeDelta::try_milliseconds);
    let end = took.and_then(|took| started.checked_add_signed(took)).unwrap_or(finished);
    end.min(finished)
}

fn written(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A UUID (version 8, RFC 9562) for a name: the same for the same name, so that an event that is sent again is known.
fn uuid(name: &str) -> String {
    let digest = Digest::of(format!("proofmill {name}").as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest.as_bytes()[..16]);
    id[6] = 0x80 | (id[6] & 0x0f);
    id[8] = 0x80 | (id[8] & 0x3f);
    let id = hex(&id);
    [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-")
}

/// A facet with what every facet has.
fn facet(version: &str, name: &str, fields: Json) -> Json {
    let mut facet = fields;
    let url = format!("https://openlineage.io/spec/facets/{version}/{name}.json#/$defs/{name}");
    facet["_producer"] = json!(PRODUCER);
    facet["_schemaURL"] = json!(url);
    facet
}

fn error(message: &str) -> Json {
    let fields = json!({ "message": message, "programmingLanguage": "Rust" });
    facet("1-0-1", "ErrorMessageRunFacet", fields)
}

fn job_type(kind: &str) -> Json {
    facet(
        "2-0-4",
        "JobTypeJobFacet",
        json!({
            "processingType": "BATCH", "integration": "PROOFMILL", "jobType": kind,
        }),
    )
}

fn job_facets(ended: &StageOutcome, run: &ExportedRun) -> Json {
    let mut facets = json!({ "jobType": job_type(&ended.kind.to_uppercase()) });
    let table = run.tables.iter().find(|(it, _)| it.stage == ended.stage);
    if let Some(query) = table.and_then(|(_, table)| table.record.components.get("settings.sql")) {
        facets["sql"] = facet("1-1-0", "SQLJobFacet", json!({ "query": query }));
    }
    facets
}

/// The tables and files that a table was made of.
fn inputs(run: &ExportedRun, record: &Artifact) -> Vec<Json> {
    let mut all = Vec::new();
    for (_, fingerprint) in record.components.iter().filter(|(name, _)| name.starts_with(INPUT)) {
        let of =
            run.tables.iter().find(|(_, it)| it.record.fingerprint.to_string() == *fingerprint);
        if let Some((ended, table)) = of {
            all.push(dataset(run, ended, &table.record));
        }
    }
    let files = outer(record).into_iter();
    all.extend(files.map(|file| {
        let version = json!({ "datasetVersion": file.sha256().map(ToString::to_string) });
        json!({ "namespace": namespace(run), "name": format!("{}.{}", run.run.pipeline, file.name),
            "facets": { "version": facet("1-0-1", "DatasetVersionDatasetFacet", version) } })
    }));
    all
}

fn output(run: &ExportedRun, ended: &StageOutcome, record: &Artifact) -> Json {
    let computed = ended.status == StageStatus::Computed;
    let statistics = json!({ "rowCount": record.rows, "size": record.bytes,
        "fileCount": record.parts.len() + record.files.len() });
    let statistics = facet("1-0-2", "OutputStatisticsOutputDatasetFacet", statistics);
    let facets = if computed { json!({ "outputStatistics": statistics }) } else { json!({}) };
    let mut output = dataset(run, ended, record);
    output["outputFacets"] = facets;
    output
}

/// The namespace of what lies in the store.
fn namespace(run: &ExportedRun) -> String {
    format!("proofmill/{}", run.store)
}

/// A table of the run, with its columns and its version.
fn dataset(run: &ExportedRun, ended: &StageOutcome, record: &Artifact) -> Json {
    let mut facets = json!({});
    let version = json!({ "datasetVersion": record.fingerprint.to_string() });
    facets["version"] = facet("1-0-1", "DatasetVersionDatasetFacet", version);
    if let Some(schema) = record.arrow_schema() {
        let field = |field: &FieldRef| json!({ "name": field.name(), "type": field.data_type().to_string() });
        let fields: Vec<Json> = schema.fields().iter().map(field).collect();
        facets["schema"] = facet("1-2-0", "SchemaDatasetFacet", json!({ "fields": fields }));
    }
    json!({ "namespace": namespace(run),
        "name": format!("{}.{}", run.run.pipeline, ended.stage), "facets": facets })
}
