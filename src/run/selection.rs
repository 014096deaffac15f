//! The stages that `--select` and `--rerun` name.

use std::collections::HashSet;

use crate::graph::select::{UnknownSelection, select, upstream};
use crate::run::plan::changed;
use crate::run::planned::Choice;
use crate::stages::plan::Prepared;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_store::Store;

/// In a selection: what would run for a reason of its own.
const CHANGED: &str = "changed";

/// The stages that options choose.
///
/// # Errors
///
/// If a term names no stage, or the store does not answer.
pub async fn choice(
    prepared: &Prepared,
    selected: Option<&str>,
    rerun: Option<&str>,
    verify: bool,
    store: &Store,
) -> Result<Choice> {
    let graph = &prepared.graph;
    let again = match rerun {
        Some(terms) => chosen(prepared, terms, store).await?,
        None => HashSet::new(),
    };
    let selected = match selected {
        // What a selected stage needs must at least be in the store.
        Some(terms) => Some(upstream(graph, chosen(prepared, terms, store).await?)),
        None => None,
    };
    Ok(Choice { selected, again, verify })
}

/// The stages that `terms` name; `changed` stands for those that would run for a reason of their own, unless a stage is
/// called so.
async fn chosen(prepared: &Prepared, terms: &str, store: &Store) -> Result<HashSet<StageName>> {
    let is_word = |term: &str| term.trim_matches('+') == CHANGED;
    let parts: Vec<&str> = terms.split([',', ' ']).collect();
    let mut terms = terms.to_owned();
    let is_stage = prepared.stages.keys().any(|stage| stage.as_str() == CHANGED);
    if !is_stage && parts.iter().any(|term| is_word(term)) {
        let changed = changed(prepared, store).await?;
        let expand = |term: &str| match is_word(term) {
            true => {
                let all = changed.iter().map(|stage| term.replace(CHANGED, stage.as_str()));
                all.collect::<Vec<_>>().join(",")
            }
            false => term.to_owned(),
        };
        terms = parts.into_iter().map(expand).collect::<Vec<_>>().join(",");
    }
    select(&prepared.graph, &terms).map_err(|error: UnknownSelection| {
        let help = error.help.clone();
        let error = Error::new(ErrorKind::Usage, error.to_string());
        help.into_iter().fold(error, Error::with_hint)
    })
}
