//! What a model is and takes, determined without loading it.

use proofmill_engine::checkpoint::{Family, LoadError};
use proofmill_engine::cpu::{Cpu, Isa};
use proofmill_engine::model::{self, measure, open_gpu};
use serde::Serialize;

use crate::models::device::{NoPlacement, Placement, name_of};
use crate::models::folder::{claim, settings};
use crate::models::identity::open_folder;
use crate::models::runtime::Runtime;
use proofmill_pipeline::models::Model;
use proofmill_settings::endpoint::Api;

/// What a model is and takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ModelInfo {
    Local(Local),
    Remote(Endpoint),
}

/// A model in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Local {
    /// As `config.json` calls it.
    pub family: &'static str,
    /// Numbers that training changes.
    pub parameters: u64,
    pub dtype: &'static str,
    pub device: String,
    /// What its kernels are compiled for; `None` on the processor.
    pub kernels: Option<String>,
    /// Bytes of the weights, on each GPU or once for all workers of the processor.
    pub weight_bytes: u64,
    /// Bytes of keys and values of all workers; `None` for an encoder.
    pub cache_bytes: Option<u64>,
}

/// A model behind an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    /// What the endpoint calls it.
    #[serde(rename = "there")]
    pub model: String,
    pub api: &'static str,
    pub url: String,
}

/// Why nothing is known of a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelInfoError {
    /// Its folder is not as it should be.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is no device for it.
    #[error(transparent)]
    Placement(#[from] NoPlacement),
    /// Its GPU does not open.
    #[error(transparent)]
    Open(#[from] model::OpenError),
}

impl ModelInfo {
    /// Of `model`, one of `local_models` if it lies in a folder.
    pub fn of(
        model: &Model,
        local_models: usize,
        runtime: &Runtime,
    ) -> Result<Self, ModelInfoError> {
        match &model.path {
            Some(path) => local(model, path, local_models, runtime).map(Self::Local),
            None => Ok(Self::Remote(remote(model))),
        }
    }
}

fn local(
    model: &Model,
    path: &str,
    local_models: usize,
    runtime: &Runtime,
) -> Result<Local, ModelInfoError> {
    let place = Placement::of(model, &runtime.gpus)?;
    let folder = open_folder(path, model)?;
    let settings = settings(model, &place, runtime);
    let size = measure(&folder, place.precision, settings.context)?;
    let (kernels, cache_bytes) = match place.gpus.first() {
        None => (None, settings.kv_cache_bytes as u64),
        Some(gpu) => {
            let opened = open_gpu(gpu.number)?;
            let free = opened.free_bytes.saturating_sub(size.weight_bytes);
            let each = claim(model, &place, local_models).cache_of(free);
            (Some(opened.kernels), each * place.gpus.len() as u64)
        }
    };
    Ok(Local {
        family: Family::model_type(folder.family()),
        parameters: size.parameters,
        dtype: place.dtype(),
        device: device(&place, settings.workers),
        kernels,
        weight_bytes: size.weight_bytes,
        cache_bytes: size.token_bytes.map(|_| cache_bytes),
    })
}

fn device(place: &Placement, workers: usize) -> String {
    if !place.gpus.is_empty() {
        return place.gpus.iter().map(name_of).collect::<Vec<_>>().join(", ");
    }
    let isa = match Cpu::default().isa() {
        Isa::Avx512 => "avx512",
        Isa::AvxVnni => "avx-vnni",
        Isa::Avx2 => "avx2",
        Isa::Portable => "portable",
    };
    let plural = if workers == 1 { "" } else { "s" };
    format!("cpu, {workers} worker{plural}, {isa}")
}

fn remote(model: &Model) -> Endpoint {
    let api = match model.api.unwrap_or_default() {
        Api::Completions => "completions",
        Api::Chat => "chat",
    };
    let url = model.url.clone().unwrap_or_default();
    Endpoint { model: model.model.clone().unwrap_or_default(), api, url }
}
