//! The `provenance` predicate (v1) of SLSA: what made the tables of a run, of what.

use chrono::SecondsFormat;
use proofmill_base::error::Result;
use serde_json::{Map, Value as Json, json};

use crate::exports::exported_run::ExportedRun;
use crate::exports::statement::Statement;

const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// How these results are made: `docs/specs/audit-log.md` specifies the parameters.
const BUILD_TYPE: &str = "urn:proofmill:run:v1";

/// The statement about a run. Its subjects are its manifest and the records of its tables.
pub(super) fn statement(run: &ExportedRun) -> Result<Statement> {
    let summary = &run.run;
    let mut external = Map::new();
    external.insert("pipeline".to_owned(), json!(summary.pipeline));
    if let Some(origin) = &summary.origin {
        external.insert("file".to_owned(), json!(origin.file.path));
    }
    external.insert(
        "parameters".to_owned(),
        summary.params.iter().map(|(name, value)| (name.clone(), exact(value))).collect(),
    );
    let code = summary.origin.iter().flat_map(|origin| &origin.code);
    let versions: Map<String, Json> =
        code.map(|(name, version)| (name.clone(), json!(version))).collect();
    let mut metadata = Map::new();
    metadata.insert("invocationId".to_owned(), json!(summary.run.as_str()));
    for (name, time) in [("startedOn", summary.started_at), ("finishedOn", run.finished_at)] {
        let time = time.map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true));
        time.into_iter().for_each(|time| {
            metadata.insert(name.to_owned(), json!(time));
        });
    }
    let mut made_of = run.source_resources();
    made_of.extend(run.outer_resources());
    let predicate = json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": external,
            "internalParameters": { "code": versions },
            "resolvedDependencies": made_of,
        },
        "runDetails": {
            "builder": {
                "id": format!("urn:proofmill:store:{}", run.store),
                "version": { "proofmill": run.version },
            },
            "metadata": metadata,
        },
    });
    Statement::of(run.results(), PREDICATE, predicate)
}

/// A value as readers of these statements get it whole: their numbers are doubles, so larger integers become texts.
fn exact(value: &Json) -> Json {
    match value {
        Json::Number(number) if number.as_i64().is_some_and(|it| it.unsigned_abs() > 1 << 53) => {
            Json::from(number.to_string())
        }
        Json::Number(number) if number.as_i64().is_none() && number.is_u64() => {
            Json::from(number.to_string())
        }
        Json::Array(items) => items.iter().map(exact).collect(),
        Json::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), exact(value))).collect()
        }
        other => other.clone(),
    }
}
