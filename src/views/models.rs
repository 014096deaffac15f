//! The models of a pipeline, and the GPUs of the machine.

use proofmill_engine::model::{GpuInfo, NoGpu};
use serde::Serialize;

use crate::models::{Endpoint, Local, ModelInfo, name_of};
use crate::report::units::{bytes, count};
use crate::views::section::{Grid, Section, View};

/// What models are and take.
#[derive(Clone, Debug, Serialize)]
pub struct ModelsView {
    /// Those in folders first.
    models: Vec<ModelLine>,
    gpus: Vec<GpuLine>,
    /// Why there is none.
    no_gpu: Option<String>,
}

/// A model.
#[derive(Clone, Debug, Serialize)]
struct ModelLine {
    model: String,
    #[serde(flatten)]
    info: ModelInfo,
}

/// A GPU.
#[derive(Clone, Debug, Serialize)]
struct GpuLine {
    number: u32,
    name: String,
    capability: String,
    bytes: u64,
    /// As people read it.
    #[serde(skip)]
    shown: String,
}

impl ModelsView {
    /// Of the models of a pipeline, by their names in it, and the GPUs that were found.
    pub fn of(mut models: Vec<(String, ModelInfo)>, gpus: Result<&[GpuInfo], &NoGpu>) -> Self {
        models.sort_by_key(|(_, info)| matches!(info, ModelInfo::Remote(_)));
        Self {
            models: models.into_iter().map(|(model, info)| ModelLine { model, info }).collect(),
            gpus: gpus.unwrap_or_default().iter().map(GpuLine::from).collect(),
            no_gpu: gpus.err().map(NoGpu::to_string),
        }
    }
}

impl From<&GpuInfo> for GpuLine {
    fn from(gpu: &GpuInfo) -> Self {
        let (major, minor) = gpu.capability;
        Self {
            number: gpu.number,
            name: gpu.name.clone(),
            capability: format!("{major}.{minor}"),
            bytes: gpu.bytes,
            shown: format!("{} ({})", name_of(gpu), bytes(gpu.bytes)),
        }
    }
}

impl View for ModelsView {
    fn sections(&self) -> Vec<Section> {
        let (mut locals, mut remotes) = (Vec::new(), Vec::new());
        for ModelLine { model, info } in &self.models {
            match info {
                ModelInfo::Local(local) => locals.push(local_cells(model, local)),
                ModelInfo::Remote(remote) => remotes.push(remote_cells(model, remote)),
            }
        }
        let local =
            ["model", "family", "parameters", "dtype", "device", "kernels", "weights", "cache"];
        let tables = [
            Grid::new(&local, &["parameters", "weights", "cache"], locals),
            Grid::new(&["model", "remote name", "api", "url"], &[], remotes),
        ];
        let gpus = match &self.no_gpu {
            Some(why) => format!("no GPU: {why}\n"),
            None => {
                let all = self.gpus.iter().map(|gpu| gpu.shown.as_str()).collect::<Vec<_>>();
                format!("GPUs: {}\n", all.join(", "))
            }
        };
        let tables = tables.into_iter().filter(|table| !table.rows.is_empty());
        tables.map(Section::Table).chain([Section::Text(gpus)]).collect()
    }
}

fn local_cells(name: &str, local: &Local) -> Vec<String> {
    let none = || "-".to_owned();
    vec![
        name.to_owned(),
        local.family.to_owned(),
        count(local.parameters),
        local.dtype.to_owned(),
        local.device.clone(),
        local.kernels.clone().unwrap_or_else(none),
        bytes(local.weight_bytes),
        local.cache_bytes.map_or_else(none, bytes),
    ]
}

fn remote_cells(name: &str, remote: &Endpoint) -> Vec<String> {
    vec![name.to_owned(), remote.model.clone(), remote.api.to_owned(), remote.url.clone()]
}
