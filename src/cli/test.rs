//! `proofmill test`

use crate::cli::args::{self, Pipeline};
use crate::cli::environment::Environment;
use crate::report::units::plural;
use crate::run::testing;
use crate::views::testing::TestView;
use proofmill_base::error::{Error, ErrorKind, Result};

/// Runs the tests of the files.
pub async fn test(args: &args::Check, environment: &Environment) -> Result<()> {
    let (output, mut all) = (&environment.output, Vec::new());
    for path in &args.pipelines {
        let pipeline = Pipeline::with(path, &args.params);
        let store = environment.host.memory_store().await?;
        let engine = environment.host.engine(&store, &environment.host.new_run())?;
        let prepared = environment.load(&pipeline, &engine).await?.prepared;
        let tests = prepared.map_or(0, |prepared| prepared.graph.pipeline.tests.len());
        for number in 0..tests {
            // Tables are filled once: every test gets a pipeline of its own.
            let loaded = environment.load(&pipeline, &engine).await?;
            let cache = environment.host.cache()?;
            let verdict = testing::run(loaded, number, &store, &cache).await;
            let test = TestView::of(path.display().to_string(), verdict);
            // People see each as it ends, programs get one document.
            if !output.json {
                output.view(&test)?;
            }
            all.push(test);
        }
    }
    if output.json {
        output.json(&all)?;
    }
    let passed = all.iter().filter(|test| test.passed).count();
    let failed = all.len() - passed;
    if failed > 0 {
        let message = format!("{} failed, {passed} passed", plural(failed, "test"));
        return Err(Error::new(ErrorKind::Stage, message));
    }
    output.remark(format!("{} passed", plural(passed, "test")));
    Ok(())
}
