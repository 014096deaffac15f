//! Who a model is: everything that can change an answer, by name.

use std::path::Path;

use proofmill_engine::checkpoint::{
    DigestCache, Digested, Folder, Identity, LoadError, Trust, VectorMode, VectorSettings,
};
use proofmill_engine::model::GemmBackend;

use crate::models::device::{NoPlacement, Placement};
use crate::models::runtime::Runtime;
use proofmill_pipeline::models::{Model, Pooling};
use proofmill_settings::endpoint::Api;

/// The version of the engine's arithmetic: raised when the same model and request would give other
/// bits or other text.
const ENGINE_VERSION: u32 = 2;

/// The part that decides which requests are refused: a table depends on it, an answer does not.
const REFUSES: &str = "capabilities";

/// What a model is made of, by name, in the order of the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelIdentity {
    parts: Vec<(&'static str, String)>,
    /// What its folder must hold when it is loaded; `None` for an endpoint.
    digested: Option<Digested>,
}

/// Why a model has no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Its folder is not as it should be.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is no device for it.
    #[error(transparent)]
    Placement(#[from] NoPlacement),
}

impl IdentityError {
    /// The setting that is to blame.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Load(_) => "path",
            Self::Placement(no_place) => no_place.key(),
        }
    }

    /// The error, and what to do about it.
    pub fn parts(&self) -> (String, Option<String>) {
        match self {
            Self::Load(error) => (error.problem(), error.help()),
            Self::Placement(no_place) => (no_place.to_string(), Some(no_place.help().to_owned())),
        }
    }

    /// Both in one line.
    pub fn in_one_line(&self) -> String {
        match self.parts() {
            (problem, Some(help)) => format!("{problem}; {help}"),
            (problem, None) => problem,
        }
    }
}

impl ModelIdentity {
    /// The identity of a model; weights are digested unless they have been before.
    pub fn of(model: &Model, runtime: &Runtime) -> Result<Self, IdentityError> {
        match (&model.path, &model.url) {
            (Some(path), _) => {
                let place = Placement::of(model, &runtime.gpus)?;
                Ok(local(&open_folder(path, model)?, &place, model.generation.as_deref(), runtime)?)
            }
            (None, url) => {
                let parts = remote(model, url.as_deref().unwrap_or_default());
                Ok(Self { parts, digested: None })
            }
        }
    }

    /// What the model's folder must hold when it is loaded; nothing for an endpoint.
    pub fn digested(&self) -> Option<&Digested> {
        self.digested.as_ref()
    }

    /// Name and value of each part.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.parts.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The parts that can change an answer on one line, as a JSON object: what keys of requests are
    /// made of.
    pub fn identity(&self) -> String {
        let object: serde_json::Map<String, serde_json::Value> = self
            .parts()
            .filter(|(name, _)| *name != REFUSES)
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        serde_json::Value::Object(object).to_string()
    }
}

/// The folder at `path`, with the vectors that the settings ask for.
pub(super) fn open_folder(path: &str, model: &Model) -> Result<Folder, LoadError> {
    let folder = Folder::open(Path::new(path))?;
    let Some(pooling) = model.pooling else { return Ok(folder) };
    let mode = match pooling {
        Pooling::Mean => VectorMode::Mean,
        Pooling::Cls => VectorMode::First,
        Pooling::Last => VectorMode::Last,
        Pooling::Pooler => VectorMode::Pooler,
    };
    Ok(folder.with_vector(VectorSettings { mode, normalize: model.normalize.unwrap_or(false) }))
}

/// Who the checkpoint in a folder is, whatever asks it, and what its files must be to be that.
pub(super) fn checkpoint(
    folder: &Folder,
    runtime: &Runtime,
) -> Result<(Identity, Digested), LoadError> {
    let digested = folder.digested(&DigestCache::new(runtime.digests()), Trust::Unchanged)?;
    Ok((Identity::of(folder, &digested), digested))
}

fn local(
    folder: &Folder,
    place: &Placement,
    generation: Option<&str>,
    runtime: &Runtime,
) -> Result<ModelIdentity, LoadError> {
    let (identity, digested) = checkpoint(folder, runtime)?;
    let vector = folder.vector().map_or_else(String::new, |vector| {
        format!("{:?}{}", vector.mode, if vector.normalize { ", normalized" } else { "" })
    });
    let mut parts = vec![
        ("config", identity.config_digest.to_string()),
        ("device", place.class()),
        ("dtype", place.dtype().to_owned()),
        ("engine", ENGINE_VERSION.to_string()),
    ];
    match place.gemm {
        // A model whose file says nothing of it is who it was before there was another way.
        GemmBackend::Builtin => {}
        GemmBackend::CublasLt => parts.push(("gemm", "cublaslt".to_owned())),
    }
    parts.extend(generation.map(|word| ("generation", word.to_owned())));
    parts.extend([
        ("tokenizer", identity.tokenizer_digest.to_string()),
        ("vector", vector),
        ("weights", identity.weights_digest.to_string()),
    ]);
    Ok(ModelIdentity { parts, digested: Some(digested) })
}

/// What is behind an address may change without a sign; what is known is where requests
/// were sent.
fn remote(model: &Model, url: &str) -> Vec<(&'static str, String)> {
    let api = match model.api.unwrap_or_default() {
        Api::Completions => "completions",
        Api::Chat => "chat",
    };
    let capabilities = model.capabilities.unwrap_or_default();
    let offered = [
        ("samples", capabilities.samples),
        ("scores", capabilities.scores),
        ("top_k", capabilities.top_k),
    ];
    let offered = offered.into_iter().filter(|(_, offered)| *offered).map(|(name, _)| name);
    let generation = model.generation.clone().map(|word| ("generation", word));
    let mut parts = vec![("api", api.to_owned())];
    // One whose file names none is who it was before there were any.
    parts.extend(generation);
    parts.extend([
        // Answers have log-probabilities, or have none.
        ("logprobs", capabilities.logprobs.to_string()),
        ("model", model.model.clone().unwrap_or_default()),
        (REFUSES, offered.collect::<Vec<_>>().join(", ")),
        ("system", model.system.clone().unwrap_or_default()),
        ("url", url.trim_end_matches('/').to_owned()),
    ]);
    parts
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use proofmill_engine::model::{GpuInfo, NoGpu};

    use super::*;
    use crate::models::device::{Gpus, Probe};
    use proofmill_base::clock::SystemClock;
    use proofmill_base::rng::SeededRng;

    /// The identity of a tiny model with these settings, on a machine with such GPUs.
    fn identity(settings: &str, probe: Probe) -> serde_json::Value {
        let cache = tempfile::tempdir().unwrap();
        let runtime = Runtime {
            cores: 1,
            gpus: Gpus::new(probe),
            clock: Arc::new(SystemClock::default()),
            rng: Arc::new(SeededRng::new(1)),
            environment: |_| None,
            cache: cache.path().to_owned(),
            allowance: Default::default(),
            relay: None,
        };
        let folder =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("udfs/engine/tests/parity/data/gpt2");
        let model = format!("{{\"path\": {:?}{settings}}}", folder.display().to_string());
        let found = ModelIdentity::of(&serde_json::from_str(&model).unwrap(), &runtime).unwrap();
        serde_json::from_str(&found.identity()).unwrap()
    }

    fn none() -> Result<Vec<GpuInfo>, NoGpu> {
        Err(NoGpu { why: "there is none".to_owned(), help: None })
    }

    fn two() -> Result<Vec<GpuInfo>, NoGpu> {
        let gpu = |number| GpuInfo { number, name: "G".to_owned(), capability: (9, 0), bytes: 1 };
        Ok(vec![gpu(0), gpu(1)])
    }

    #[test]
    fn on_the_processor_a_model_is_who_it_always_was() {
        let found = identity("", none);
        let keys: Vec<&str> = found.as_object().unwrap().keys().map(String::as_str).collect();
        let parts = ["config", "device", "dtype", "engine", "tokenizer", "vector", "weights"];
        assert_eq!(keys, parts);
        assert_eq!(found["device"], "cpu");
        assert_eq!(found["dtype"], "f32");
        assert_eq!(identity(r#", "device": "cpu""#, two), found);
        assert_eq!(identity(r#", "device": "auto", "dtype": "f32", "workers": 3"#, none), found);
        let int8 = identity(r#", "device": "cpu", "dtype": "int8""#, two);
        assert_eq!(int8["device"], "cpu");
        assert_eq!(int8["dtype"], "int8");
    }

    #[test]
    fn on_a_gpu_it_is_another_whichever_gpu_it_is() {
        let found = identity("", two);
        assert_eq!(found["device"], "cuda 9.0");
        assert_eq!(found["dtype"], "bf16");
        assert_eq!(identity(r#", "device": "cuda:1""#, two), found);
        assert_eq!(identity(r#", "device": "cuda", "dtype": "bf16""#, two), found);
        assert_ne!(identity(r#", "dtype": "f32""#, two), identity("", none));
        assert_eq!(identity(r#", "gemm": "builtin""#, two), found);
    }

    #[test]
    fn with_a_generation_it_is_another_in_just_that() {
        let mut found = identity(r#", "generation": "second""#, none);
        assert_eq!(found.as_object_mut().unwrap().remove("generation"), Some("second".into()));
        assert_eq!(found, identity("", none));
    }

    #[test]
    fn with_cublaslt_it_is_another_in_just_that() {
        let mut found = identity(r#", "gemm": "cublaslt""#, two);
        let parts = found.as_object_mut().unwrap();
        assert_eq!(parts.remove("gemm"), Some("cublaslt".into()));
        assert_eq!(found, identity("", two));
    }
}
