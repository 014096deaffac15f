//! The pipeline of a past run, from the texts that it kept.

use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::project::plain;
use proofmill_store::{SourceRole, Store, read_source};

use crate::stages::load::{self, ASK, Draft, LIMIT};
use crate::stages::stored_tables::KeptTexts;

/// The pipeline of a run as it kept it, and its texts.
///
/// # Errors
///
/// If it kept none, or they cannot be read.
pub async fn pipeline(store: &Store, run: &RunSummary) -> Result<(String, Draft, KeptTexts)> {
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
    let sources = run.origin.as_ref().map(|origin| origin.sources.clone()).unwrap_or_default();
    let mut texts = KeptTexts::new();
    for (path, source) in sources.iter().filter(|(_, source)| source.stored) {
        texts.insert(path.clone(), read_source(store, source).await?.to_vec());
    }
    let file = sources.iter().find(|(_, source)| source.role == SourceRole::Pipeline);
    let Some((path, _)) = file else {
        return Err(usage(format!("run {} keeps none of its texts", run.run))
            .with_hint("an older proofmill ran it; runs of this one keep them"));
    };
    let params: Vec<(String, String)> = run
        .params
        .iter()
        .filter(|(name, _)| ![LIMIT, ASK].contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), plain(value)))
        .collect();
    let mut draft = load::read_kept(path, &texts, &params)?;
    if let Some(rows) = run.params.get(LIMIT).and_then(serde_json::Value::as_u64) {
        draft.limit(rows);
    }
    if let Some(generation) = run.params.get(ASK).and_then(serde_json::Value::as_str) {
        draft.ask_anew(generation);
    }
    Ok((path.clone(), draft, texts))
}
