//! `proofmill show models`

use proofmill_engine::model::{GpuInfo, NoGpu};
use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::output::Output;
use crate::models::{Endpoint, Local, ModelInfo, name_of};
use crate::report::units::{bytes, count};
use proofmill_base::error::{Error, ErrorKind, Result};

/// Shows what the models of a pipeline are and take, and the GPUs of the machine.
pub async fn show_models(args: &args::ShowModels, environment: &Environment) -> Result<()> {
    let engine = environment.planner()?;
    let (mut locals, mut remotes) = (Vec::new(), Vec::new());
    if let Some(pipeline) = &args.pipeline {
        let pipeline = args::Pipeline::with(pipeline, &args.params);
        let loaded = environment.load(&pipeline, &engine).await?;
        for (name, facts) in loaded.engine.models().facts() {
            match facts {
                Ok(ModelInfo::Local(local)) => locals.push((name.to_owned(), local)),
                Ok(ModelInfo::Remote(remote)) => remotes.push((name.to_owned(), remote)),
                Err(error) => {
                    let message = format!("model `{name}` cannot be used: {error}");
                    return Err(Error::new(ErrorKind::Pipeline, message));
                }
            }
        }
    }
    let gpus = environment.gpus();
    let output = &environment.output;
    if output.json {
        let models: Vec<Json> = locals
            .iter()
            .map(|(name, local)| local_json(name, local))
            .chain(remotes.iter().map(|(name, remote)| remote_json(name, remote)))
            .collect();
        let found = gpus.all();
        let all: Vec<Json> = found.unwrap_or_default().iter().map(gpu_json).collect();
        let why = found.err().map(NoGpu::to_string);
        output.json(&json!({"models": models, "gpus": all, "no_gpu": why}))?;
        return Ok(());
    }
    if !locals.is_empty() {
        output.data(format!("{}\n", local_table(&locals, output)))?;
    }
    if !remotes.is_empty() {
        output.data(format!("{}\n", remote_table(&remotes, output)))?;
    }
    output.data(match gpus.all() {
        Ok(all) => {
            let one = |gpu: &GpuInfo| format!("{} ({})", name_of(gpu), bytes(gpu.bytes));
            format!("GPUs: {}\n", all.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        Err(why) => format!("no GPU: {why}\n"),
    })?;
    Ok(())
}

fn local_table(locals: &[(String, Local)], output: &Output) -> String {
    let header =
        ["model", "family", "parameters", "dtype", "device", "kernels", "weights", "cache"];
    let none = || "-".to_owned();
    let line = |(name, local): &(String, Local)| {
        vec![
            name.clone(),
            local.family.to_owned(),
            count(local.parameters),
            local.dtype.to_owned(),
            local.device.clone(),
            local.kernels.clone().unwrap_or_else(none),
            bytes(local.weight_bytes),
            local.cache_bytes.map_or_else(none, bytes),
        ]
    };
    let right = [false, false, true, false, false, false, true, true];
    output.table(&header.map(str::to_owned), locals.iter().map(line).collect(), &right)
}

fn remote_table(remotes: &[(String, Endpoint)], output: &Output) -> String {
    let line = |(name, remote): &(String, Endpoint)| {
        vec![name.clone(), remote.model.clone(), remote.api.to_owned(), remote.url.clone()]
    };
    let header = ["model", "there", "api", "url"].map(str::to_owned);
    output.table(&header, remotes.iter().map(line).collect(), &[])
}

fn local_json(name: &str, local: &Local) -> Json {
    json!({
        "model": name,
        "family": local.family,
        "parameters": local.parameters,
        "dtype": local.dtype,
        "device": local.device,
        "kernels": local.kernels,
        "weight_bytes": local.weight_bytes,
        "cache_bytes": local.cache_bytes,
    })
}

fn remote_json(name: &str, remote: &Endpoint) -> Json {
    json!({"model": name, "there": remote.model, "api": remote.api, "url": remote.url})
}

fn gpu_json(gpu: &GpuInfo) -> Json {
    let (major, minor) = gpu.capability;
    let capability = format!("{major}.{minor}");
    json!({"number": gpu.number, "name": gpu.name, "capability": capability, "bytes": gpu.bytes})
}
