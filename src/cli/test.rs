//! `proofmill test`

use serde_json::{Value as Json, json};

use crate::cli::args::{self, Pipeline};
use crate::cli::environment::Environment;
use crate::report::units::plural;
use crate::run::testing;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::styled::printable;

/// Runs the tests of the files.
pub async fn test(args: &args::Check, environment: &Environment) -> Result<()> {
    let output = &environment.output;
    let (mut passed, mut failed, mut all) = (0, 0, Vec::new());
    for path in &args.pipelines {
        let pipeline = Pipeline::with(path, &args.params);
        let store = environment.memory_store().await?;
        let engine = environment.engine(&store, &environment.new_run())?;
        let tests = environment
            .load(&pipeline, &engine)
            .await?
            .prepared
            .map_or(0, |prepared| prepared.graph.pipeline.tests.len());
        for number in 0..tests {
            // Tables are filled once: every test gets a pipeline of its own.
            let loaded = environment.load(&pipeline, &engine).await?;
            let verdict = testing::run(loaded, number, &store, &environment.cache()?).await;
            let ok = verdict.differences.is_empty();
            if ok {
                passed += 1
            } else {
                failed += 1
            }
            all.push(json!({
                "file": path.display().to_string(),
                "test": verdict.name,
                "passed": ok,
                "differences": verdict.differences,
            }));
            if !output.json {
                let mark = if ok { "ok    " } else { "FAILED" };
                output.data(format!("{mark}  {}: {}\n", path.display(), verdict.name))?;
                for line in &verdict.differences {
                    output.data(format!("          {}\n", printable(line, true)))?;
                }
            }
        }
    }
    if output.json {
        output.json(&Json::Array(all))?;
    }
    if failed > 0 {
        let message = format!("{} failed, {passed} passed", plural(failed, "test"));
        return Err(Error::new(ErrorKind::Stage, message));
    }
    output.remark(format!("{} passed", plural(passed, "test")));
    Ok(())
}
