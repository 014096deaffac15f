//! The pipeline of a past run, from the texts that it kept.

use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::project::plain;
use proofmill_store::{SourceRole, Store, read_source};

use crate::stages::load::{self, ASK, Draft, LIMIT};
use crate::stages::stored_tables::KeptTexts;

/// The texts that a run kept, and its parameters.
#[derive(Clone, Debug)]
pub struct KeptPipeline {
    /// Where its file was.
    pub path: String,
    pub texts: KeptTexts,
    /// As they were given to its file.
    pub params: Vec<(String, String)>,
    limit: Option<u64>,
    generation: Option<String>,
}

impl KeptPipeline {
    /// Reads the texts of a run.
    ///
    /// # Errors
    ///
    /// If it kept none, or they cannot be read.
    pub async fn of(run: &RunSummary, store: &Store) -> Result<Self> {
        let sources = run.origin.as_ref().map(|origin| origin.sources.clone()).unwrap_or_default();
        let mut texts = KeptTexts::new();
        for (path, source) in sources.iter().filter(|(_, source)| source.stored) {
            texts.insert(path.clone(), read_source(store, source).await?.to_vec());
        }
        let file = sources.iter().find(|(_, source)| source.role == SourceRole::Pipeline);
        let Some((path, _)) = file else {
            let message = format!("run {} keeps none of its texts", run.run);
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("an older proofmill ran it; runs of this one keep them"));
        };
        let is_option = |name: &str| [LIMIT, ASK].contains(&name);
        let params = run.params.iter().filter(|(name, _)| !is_option(name));
        Ok(Self {
            path: path.clone(),
            texts,
            params: params.map(|(name, value)| (name.clone(), plain(value))).collect(),
            limit: run.params.get(LIMIT).and_then(serde_json::Value::as_u64),
            generation: run.params.get(ASK).and_then(serde_json::Value::as_str).map(str::to_owned),
        })
    }

    /// Its pipeline, as the run had it.
    ///
    /// # Errors
    ///
    /// If the file is not among its texts.
    pub fn draft(&self) -> Result<Draft> {
        let mut draft = load::read_kept(&self.path, &self.texts, &self.params)?;
        self.limit.iter().for_each(|rows| draft.limit(*rows));
        self.generation.iter().for_each(|generation| draft.ask_anew(generation));
        Ok(draft)
    }

    /// Its pipeline with the parameters of another run, as far as its file declares them.
    ///
    /// # Errors
    ///
    /// As [`Self::draft`].
    pub fn draft_with(&self, other: &Self) -> Result<Draft> {
        let own = self.draft()?;
        let mut params = self.params.clone();
        for (name, value) in other.params.iter().filter(|(name, _)| own.declares(name)) {
            params.retain(|(known, _)| known != name);
            params.push((name.clone(), value.clone()));
        }
        Self { params, ..self.clone() }.draft()
    }
}
