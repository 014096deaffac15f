//! Who a model is: everything that can change an answer, by name.

use std::path::Path;

use proofmill_engine::checkpoint::{
    DigestCache, Folder, Identity, LoadError, Trust, VectorMode, VectorSettings,
};

use crate::models::host::Host;
use crate::spec::models::{Api, Dtype, Model, Pooling};

/// The version of the engine's arithmetic: raised when the same model and request would give other
/// bits or other text.
const ENGINE_VERSION: u32 = 1;

/// The part that decides which requests are refused: a table depends on it, an answer does not.
const REFUSES: &str = "offers";

/// What a model is made of, by name, in the order of the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    parts: Vec<(&'static str, String)>,
}

/// Why a model has no card.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// Its folder is not as it should be.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Card {
    /// The card of a model; weights are digested if nobody has before.
    pub fn of(model: &Model, host: &Host) -> Result<Self, CardError> {
        let parts = match (&model.path, &model.url) {
            (Some(path), _) => local(model, &open_folder(path, model)?, host)?,
            (None, url) => remote(model, url.as_deref().unwrap_or_default()),
        };
        Ok(Self { parts })
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

fn local(
    model: &Model,
    folder: &Folder,
    host: &Host,
) -> Result<Vec<(&'static str, String)>, LoadError> {
    let cache = DigestCache::new(host.digests());
    let identity = Identity::read(folder, &cache, Trust::Unchanged)?;
    let dtype = match model.dtype.unwrap_or_default() {
        Dtype::F32 => "f32",
        Dtype::Int8 => "int8",
    };
    let vector = folder.vector().map_or_else(String::new, |vector| {
        format!("{:?}{}", vector.mode, if vector.normalize { ", normalized" } else { "" })
    });
    Ok(vec![
        ("config", identity.config_digest.to_string()),
        ("device", "cpu".to_owned()),
        ("dtype", dtype.to_owned()),
        ("engine", ENGINE_VERSION.to_string()),
        ("tokenizer", identity.tokenizer_digest.to_string()),
        ("vector", vector),
        ("weights", identity.weights_digest.to_string()),
    ])
}

/// What is behind an address may change without a sign; what is known is who was asked.
fn remote(model: &Model, url: &str) -> Vec<(&'static str, String)> {
    let api = match model.api.unwrap_or_default() {
        Api::Completions => "completions",
        Api::Chat => "chat",
    };
    let offers = model.offers.clone().unwrap_or_default();
    let offered = [("samples", offers.samples), ("scores", offers.scores), ("top_k", offers.top_k)];
    let offered = offered.into_iter().filter(|(_, offered)| *offered).map(|(name, _)| name);
    vec![
        ("api", api.to_owned()),
        // Answers have log-probabilities, or have none.
        ("logprobs", offers.logprobs.to_string()),
        ("model", model.model.clone().unwrap_or_default()),
        (REFUSES, offered.collect::<Vec<_>>().join(", ")),
        ("system", model.system.clone().unwrap_or_default()),
        ("url", url.trim_end_matches('/').to_owned()),
    ]
}
