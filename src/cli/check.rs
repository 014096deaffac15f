//! `proofmill check`

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::cli::args::{self, Pipeline};
use crate::cli::environment::Environment;
use crate::report::units::plural;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_pipeline::diagnostic::Severity;

/// Finds all diagnostics of the files. What a template says in several files is reported once.
pub async fn check(args: &args::Check, environment: &Environment) -> Result<()> {
    let engine = environment.host.planner()?;
    let output = &environment.output;
    let (mut diagnostics, mut warnings, mut stages) = (0, 0, 0);
    let (mut known, mut all) = (HashSet::new(), Vec::new());
    for path in &args.pipelines {
        let pipeline = Pipeline::with(path, &args.params);
        let mut loaded = environment.load_with_diagnostics(&pipeline, &engine).await?;
        stages += loaded.prepared.as_ref().map_or(0, |prepared| prepared.stages.len());
        let sources = &loaded.sources;
        loaded.diagnostics.retain(|said| {
            let json = said.to_json(sources);
            let is_new = known.insert(json.to_string());
            if is_new {
                all.push(json);
                match said.severity {
                    Severity::Error => diagnostics += 1,
                    Severity::Warning => warnings += 1,
                }
            }
            is_new
        });
        if !output.json {
            output.diagnostics(&loaded.diagnostics, sources)?;
        }
    }
    if output.json {
        output.json(&Json::Array(all))?;
    }
    let warned = match warnings {
        0 => String::new(),
        n => format!(", {}", plural(n, "warning")),
    };
    let files = plural(args.pipelines.len(), "file");
    if diagnostics > 0 {
        let message = format!("{}{warned} in {files}", plural(diagnostics, "error"));
        return Err(Error::new(ErrorKind::Pipeline, message)
            .with_hint("`proofmill explain CODE` explains each"));
    }
    output.remark(format!("{files}, {}: no errors{warned}", plural(stages, "stage")));
    Ok(())
}
