//! The models of a pipeline by name.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use indexmap::IndexMap;
use proofmill_engine::checkpoint::{Digest, Digested, Folder, LoadError, digest_of_parts};
use proofmill_engine::schedule::Counts;
use proofmill_remote::budget::Allowance;
use proofmill_remote::usage::cost;
use proofmill_remote::{Money, Reported, Usage};
use proofmill_udfs::model::{LanguageModel, Ledger, Models, OpenError, Opener, Recording};

use crate::models::device::Placement;
use crate::models::endpoint::RemoteEndpoint;
use crate::models::folder::LocalModel;
use crate::models::identity::{IdentityError, ModelIdentity, checkpoint};
use crate::models::model_info::{ModelInfo, ModelInfoError};
use crate::models::runtime::Runtime;
use crate::relay::coordinator::{Given, RelayedModel};
use crate::relay::records::{ModelCard, RELAY_VERSION};
use proofmill_pipeline::device::Device;
use proofmill_pipeline::models::Model;

/// The models of a pipeline, and what SQL functions ask them through.
#[derive(Debug)]
pub struct Registry {
    entries: IndexMap<String, Arc<Entry>>,
    inference: Arc<Models>,
    runtime: Runtime,
}

/// One model. Its identity is made once: it may take a while.
#[derive(Debug)]
struct Entry {
    name: String,
    model: Model,
    /// How many of the models lie in folders, this one or not.
    local_models: usize,
    runtime: Runtime,
    identity: OnceLock<Result<ModelIdentity, Arc<IdentityError>>>,
    chat_template: OnceLock<Option<bool>>,
    /// The model itself, if it is an endpoint that some stage asks.
    endpoint: OnceLock<Arc<RemoteEndpoint>>,
    /// The model itself, if it lies in a folder and some stage asks it.
    local: OnceLock<Arc<LocalModel>>,
    /// What asks workers, if they take part and some stage asks the model.
    relayed: OnceLock<Arc<RelayedModel>>,
}

impl Registry {
    /// Models by name; their answers are kept in `ledger`.
    pub fn new(
        models: impl IntoIterator<Item = (String, Model)>,
        ledger: Arc<dyn Ledger>,
        runtime: &Runtime,
    ) -> Self {
        let models: Vec<(String, Model)> = models.into_iter().collect();
        let local_models = models.iter().filter(|(_, model)| model.path.is_some()).count();
        let entry = |name: &String, model| {
            Arc::new(Entry {
                name: name.clone(),
                model,
                local_models,
                runtime: runtime.clone(),
                identity: OnceLock::new(),
                chat_template: OnceLock::new(),
                endpoint: OnceLock::new(),
                local: OnceLock::new(),
                relayed: OnceLock::new(),
            })
        };
        let entries: IndexMap<String, Arc<Entry>> = models
            .into_iter()
            .map(|(name, model)| {
                let entry = entry(&name, model);
                (name, entry)
            })
            .collect();
        let openers: Vec<(String, Arc<dyn Opener>)> = entries
            .iter()
            .map(|(name, entry)| (name.clone(), Arc::clone(entry) as Arc<dyn Opener>))
            .collect();
        let inference = Models::new(openers, ledger, Recording::default());
        Self { entries, inference: Arc::new(inference), runtime: runtime.clone() }
    }

    /// The folder of each model that lies in one, by name.
    pub fn folders(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.entries.iter();
        all.filter_map(|(name, entry)| Some((name.as_str(), entry.model.path.as_deref()?)))
    }

    /// Who the checkpoint in `folder` is, in one digest, and what its files must be to be that: for
    /// stages that read its weights without inference.
    pub fn checkpoint(&self, folder: &str) -> Result<(Digest, Digested), LoadError> {
        let (identity, digested) = checkpoint(&Folder::open(Path::new(folder))?, &self.runtime)?;
        let parts = [identity.config_digest, identity.tokenizer_digest, identity.weights_digest];
        let named = ["config", "tokenizer", "weights"].into_iter().zip(parts);
        Ok((digest_of_parts(named), digested))
    }

    /// The models that SQL functions send their requests to.
    pub fn inference(&self) -> &Arc<Models> {
        &self.inference
    }

    /// The names of all models.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.keys().map(String::as_str)
    }

    /// The identity of a model; `None` if there is no such model.
    pub fn identity(&self, name: &str) -> Option<Result<ModelIdentity, Arc<IdentityError>>> {
        Some(self.entries.get(name)?.identity())
    }
}

impl Registry {
    /// What each model is and takes, by name.
    pub fn facts(&self) -> impl Iterator<Item = (&str, Result<ModelInfo, ModelInfoError>)> {
        let of = |entry: &Entry| ModelInfo::of(&entry.model, entry.local_models, &entry.runtime);
        self.entries.iter().map(move |(name, entry)| (name.as_str(), of(entry)))
    }

    /// Whether a model in a folder has a chat template; `None` for an endpoint, and where there is no such
    /// model or folder.
    pub fn has_chat_template(&self, name: &str) -> Option<bool> {
        let entry = self.entries.get(name)?;
        *entry.chat_template.get_or_init(|| {
            let folder = Folder::open(Path::new(entry.model.path.as_deref()?)).ok()?;
            Some(folder.chat_template().ok()?.is_some())
        })
    }

    /// A model, ready to answer; `None` if there is no such model.
    ///
    /// # Errors
    ///
    /// Why it cannot answer.
    pub async fn open(&self, name: &str) -> Option<Result<Arc<dyn LanguageModel>, OpenError>> {
        Some(self.entries.get(name)?.open().await)
    }

    /// Whether workers take part.
    pub fn has_workers(&self) -> bool {
        self.runtime.relay.is_some()
    }

    /// The names under which this process itself is a worker.
    pub fn own_workers(&self) -> BTreeSet<String> {
        self.entries.values().filter_map(|it| Some(it.relayed.get()?.given().own)).collect()
    }

    /// Ends the exchange with workers, whose answers are recorded.
    pub async fn end_relayed(&self) {
        for relayed in self.entries.values().filter_map(|entry| entry.relayed.get()) {
            relayed.end().await;
        }
    }

    /// Has all endpoints together send no more than `allowance` lets pass. Said once, before anything is sent.
    pub fn limit(&self, allowance: Arc<dyn Allowance>) {
        let _ = self.runtime.allowance.set(allowance);
    }

    /// Whether some model is behind an endpoint.
    pub fn has_endpoints(&self) -> bool {
        self.entries.values().any(|entry| entry.model.url.is_some())
    }

    /// Whether the price of what some model answers is known.
    pub fn has_prices(&self) -> bool {
        self.entries.values().any(|entry| entry.model.prices.is_some())
    }

    /// What each endpoint called itself in its answers, with how many of them.
    pub fn reported(&self) -> impl Iterator<Item = (&str, Vec<(Reported, u64)>)> {
        self.entries.iter().filter_map(|(name, entry)| {
            let reported = entry.endpoint.get()?.reported();
            (!reported.is_empty()).then_some((name.as_str(), reported))
        })
    }

    /// Usage of each endpoint so far, that of workers included, and what that cost where there are prices; without unused
    /// endpoints.
    pub fn spent(&self) -> impl Iterator<Item = (&str, Usage, Option<Money>)> {
        self.entries.iter().filter_map(|(name, entry)| {
            let own = entry.endpoint.get()?.spent().map(|(usage, _)| usage).unwrap_or_default();
            let of_workers = entry.relayed.get().map(|it| it.given().usage).unwrap_or_default();
            let usage = own + of_workers;
            let cost = entry.model.prices.map(|prices| cost(&prices, &usage));
            (usage.requests > 0).then_some((name.as_str(), usage, cost))
        })
    }

    /// Who answered for each model whose requests went to workers, a sentence each.
    pub fn answered_by(&self) -> impl Iterator<Item = String> {
        self.entries.iter().filter_map(|(name, entry)| {
            let Given { by, own, .. } = entry.relayed.get()?.given();
            let line = |(process, requests): (&String, &u64)| match *process == own {
                true => format!("this process {requests}"),
                false => format!("worker {process} {requests}"),
            };
            let lines: Vec<String> = by.iter().map(line).collect();
            (!lines.is_empty()).then(|| format!("requests to {name}: {}", lines.join(", ")))
        })
    }

    /// What each model in a folder has done so far; without those that did nothing.
    pub fn computed(&self) -> impl Iterator<Item = (&str, Counts)> {
        self.entries.iter().filter_map(|(name, entry)| {
            let counts = entry.local.get()?.counts();
            Some((name.as_str(), counts)).filter(|(_, counts)| counts.answers > 0)
        })
    }

    /// Gives back the memory of a model in a folder that no stage uses any more. One that is used
    /// all the same is loaded again.
    pub fn unload(&self, name: &str) {
        if let Some(model) = self.entries.get(name).and_then(|entry| entry.local.get()) {
            model.unload();
        }
    }

    /// What readers of a run should know of how its models ran, a sentence each; no answer depends on it.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        self.entries.iter().flat_map(|(name, entry)| {
            let notices = entry.local.get().map(|model| model.notices()).unwrap_or_default();
            notices.into_iter().map(move |notice| format!("model {name}: {notice}"))
        })
    }

    /// Why a model that some stage asks, and that would run on a GPU if there were one, runs on the
    /// processor.
    pub fn why_no_gpu(&self) -> Option<String> {
        let asks = |entry: &&Arc<Entry>| {
            let device = entry.model.device.unwrap_or_default();
            let is_used = entry.identity.get().is_some_and(Result::is_ok);
            is_used && entry.model.path.is_some() && device == Device::Auto
        };
        let entry = self.entries.values().find(asks)?;
        entry.runtime.gpus.all().err().map(|no| no.why.clone())
    }
}

impl Entry {
    fn identity(&self) -> Result<ModelIdentity, Arc<IdentityError>> {
        let identity = self
            .identity
            .get_or_init(|| ModelIdentity::of(&self.model, &self.runtime).map_err(Arc::new));
        identity.clone()
    }
}

#[async_trait]
impl Opener for Entry {
    async fn open(&self) -> Result<Arc<dyn LanguageModel>, OpenError> {
        let identity = self.identity().map_err(|error| OpenError::new(error.in_one_line()))?;
        let model = self.own(&identity)?;
        let Some(relay) = &self.runtime.relay else { return Ok(model) };
        let card = ModelCard {
            v: RELAY_VERSION,
            name: self.name.clone(),
            identity: identity.identity(),
            settings: self.model.clone(),
        };
        let relayed = RelayedModel::start(relay, card, model).await.map_err(OpenError::new)?;
        Ok(Arc::clone(self.relayed.get_or_init(|| Arc::new(relayed))) as Arc<dyn LanguageModel>)
    }
}

impl Entry {
    /// The model as this machine has it.
    fn own(&self, identity: &ModelIdentity) -> Result<Arc<dyn LanguageModel>, OpenError> {
        Ok(match &self.model.path {
            Some(_) => {
                let (model, runtime) = (&self.model, &self.runtime);
                let place = Placement::of(model, &runtime.gpus).map_err(OpenError::new)?;
                let new = || {
                    let models = self.local_models;
                    Arc::new(LocalModel::new(model, identity, &place, models, runtime))
                };
                Arc::clone(self.local.get_or_init(new)) as Arc<dyn LanguageModel>
            }
            None => {
                let new = || {
                    let identity = identity.identity();
                    Arc::new(RemoteEndpoint::new(&self.model, identity, &self.runtime))
                };
                Arc::clone(self.endpoint.get_or_init(new)) as Arc<dyn LanguageModel>
            }
        })
    }
}
