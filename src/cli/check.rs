//! `proofmill check`

use serde_json::Value as Json;

use crate::cli::args::{self, Pipeline};
use crate::cli::environment::Environment;
use crate::report::units::plural;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_pipeline::diagnostic::Severity;

/// Finds all mistakes of the files.
pub async fn check(args: &args::Check, environment: &Environment) -> Result<()> {
    let engine = environment.planner()?;
    let output = &environment.output;
    let (mut mistakes, mut all, mut stages) = (0, Vec::new(), 0);
    for path in &args.pipelines {
        let pipeline = Pipeline { pipeline: path.clone(), params: args.params.clone() };
        let loaded = environment.load_with_mistakes(&pipeline, &engine).await?;
        stages += loaded.prepared.as_ref().map_or(0, |prepared| prepared.stages.len());
        mistakes += loaded.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        if output.json {
            all.extend(loaded.diagnostics.iter().map(|d| d.to_json(&loaded.sources)));
        } else {
            output.diagnostics(&loaded.diagnostics, &loaded.sources)?;
        }
    }
    if output.json {
        output.json(&Json::Array(all))?;
    }
    let files = plural(args.pipelines.len(), "file");
    if mistakes > 0 {
        let message = format!("{} in {files}", plural(mistakes, "mistake"));
        return Err(Error::new(ErrorKind::Pipeline, message)
            .with_hint("`proofmill explain CODE` says more about each"));
    }
    output.remark(format!("{files}, {}: no mistakes", plural(stages, "stage")));
    Ok(())
}
