//! `proofmill show models`

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::views::models::ModelsView;
use proofmill_base::error::{Error, ErrorKind, Result};

/// Shows what the models of a pipeline are and take, and the GPUs of the machine.
pub async fn show_models(args: &args::ShowModels, environment: &Environment) -> Result<()> {
    let engine = environment.host.planner()?;
    let mut models = Vec::new();
    if let Some(pipeline) = &args.pipeline {
        let pipeline = args::Pipeline::with(pipeline, &args.params);
        let loaded = environment.load(&pipeline, &engine).await?;
        for (name, facts) in loaded.engine.models().facts() {
            let info = facts.map_err(|error| {
                let message = format!("model `{name}` cannot be used: {error}");
                Error::new(ErrorKind::Pipeline, message)
            })?;
            models.push((name.to_owned(), info));
        }
    }
    let gpus = environment.host.gpus();
    environment.output.view(&ModelsView::of(models, gpus.all()))
}
