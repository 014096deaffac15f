//! A proof of a past run, found by its name.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use serde_json::{Map, Value as Json};

use crate::cli::environment::Environment;
use crate::cli::sql::fetch;
use crate::memory::Sentence;
use crate::run::bind::tables;
use crate::stages::tables::rows::objects;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::RunId;
use proofmill_base::suggest;
use proofmill_catalog::summary::{RunSummary, artifact};
use proofmill_pipeline::role::KindRole;
use proofmill_store::{StageOutcome, Store};

/// The columns that tables of proofs have.
const NEEDED: [&str; 3] = ["proof_id", "hypothesis", "premises"];

/// A proof of a past run.
#[derive(Clone, Debug, PartialEq)]
pub struct TaughtProof {
    pub hypothesis: Sentence,
    /// Its premises; none if the model wrote none.
    pub premises: Vec<Sentence>,
    /// The question, where the table has it.
    pub question: Option<Sentence>,
    /// The answer, where the table has it.
    pub answer: Option<Sentence>,
}

/// The proof `id` of a run, the latest unless it is named, and of one of its stages, if it is named.
pub async fn find(
    id: &str,
    run: Option<&str>,
    stage: Option<&str>,
    store: &Store,
    environment: &Environment,
) -> Result<(RunId, TaughtProof)> {
    let run = environment.run(store, run).await?;
    let mut found: Vec<(String, TaughtProof)> = Vec::new();
    let (verified, others): (Vec<&StageOutcome>, Vec<&StageOutcome>) = chosen(&run, stage)?
        .into_iter()
        .partition(|it| KindRole::of(&it.kind) == Some(KindRole::Judgements));
    for outcomes in [verified, others] {
        // What no model judged is looked at only if nothing that was judged is found.
        if found.is_empty() {
            for outcome in outcomes {
                let proofs = of_stage(id, outcome, store, environment).await?;
                found.extend(proofs.into_iter().map(|proof| (outcome.stage.to_string(), proof)));
            }
        }
    }
    let stages: Vec<String> = found.iter().map(|(stage, _)| format!("`{stage}`")).collect();
    found.dedup_by(|(_, one), (_, other)| one == other);
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some((_, proof)), None) => Ok((run.run, proof)),
        (None, _) => {
            let message = format!("run `{}` has no proof `{id}`", run.run);
            Err(Error::new(ErrorKind::Usage, message).with_hint(
                "give the `proof_id` of a proof, such as `penny#0/free`; `--run` selects another run",
            ))
        }
        (Some(_), Some(_)) => {
            let message = format!("`{id}` is the id of different proofs, in {}", stages.join(", "));
            Err(Error::new(ErrorKind::Usage, message).with_hint("choose one with `--stage`"))
        }
    }
}

fn chosen<'a>(run: &'a RunSummary, stage: Option<&str>) -> Result<Vec<&'a StageOutcome>> {
    let Some(stage) = stage else { return Ok(run.stages.iter().collect()) };
    let found = run.stages.iter().find(|outcome| outcome.stage.as_str() == stage);
    let found = found.ok_or_else(|| {
        let message = format!("run `{}` has no stage `{stage}`", run.run);
        let names = run.stages.iter().map(|outcome| outcome.stage.as_str());
        let error = Error::new(ErrorKind::Usage, message);
        suggest::help(stage, names).into_iter().fold(error, Error::with_hint)
    })?;
    Ok(vec![found])
}

/// The proofs of that name in the table of a stage, if it is a table of proofs.
async fn of_stage(
    id: &str,
    outcome: &StageOutcome,
    store: &Store,
    environment: &Environment,
) -> Result<Vec<TaughtProof>> {
    let Some(stored) = artifact(store, outcome).await? else { return Ok(Vec::new()) };
    let columns = &stored.record.schema;
    let has = |name: &str| columns.iter().any(|column| column.name == name);
    if !NEEDED.iter().all(|name| has(name)) {
        return Ok(Vec::new());
    }
    let Some((name, table)) = tables(store, outcome).await?.into_iter().next() else {
        return Ok(Vec::new());
    };
    let optional: String = ["question", "answer"]
        .iter()
        .filter(|name| has(name))
        .map(|name| format!(", {name}"))
        .collect();
    let sql = format!(
        "SELECT hypothesis, premises{optional} FROM {name} WHERE proof_id = '{}'",
        id.replace('\'', "''")
    );
    let named = HashMap::from([(name.to_string(), table as Arc<dyn TableProvider>)]);
    let engine = environment.host.engine(store, &environment.host.new_run())?;
    let (_, batches) = fetch(&sql, named, &engine, usize::MAX, 0).await?;
    objects(&batches).iter().map(|row| of_row(row).map_err(|e| unusable(id, &name, e))).collect()
}

fn unusable(id: &str, stage: &impl std::fmt::Display, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Usage, format!("proof `{id}` of stage `{stage}` cannot be used: {error}"))
        .with_hint("give hypothesis and premises yourself")
}

fn of_row(row: &Map<String, Json>) -> std::result::Result<TaughtProof, crate::memory::MemoryError> {
    let sentence =
        |name: &str| row.get(name).and_then(Json::as_str).map(str::parse::<Sentence>).transpose();
    // Judged premises are objects with their text, those of a prover are texts.
    let text = |premise: &Json| {
        let text = premise.get("text").unwrap_or(premise);
        text.as_str().unwrap_or_default().parse()
    };
    let premises = row.get("premises").and_then(Json::as_array);
    let premises =
        premises.into_iter().flatten().map(text).collect::<std::result::Result<_, _>>()?;
    let hypothesis = match sentence("hypothesis")? {
        Some(hypothesis) => hypothesis,
        None => "".parse()?,
    };
    Ok(TaughtProof {
        hypothesis,
        premises,
        question: sentence("question")?,
        answer: sentence("answer")?,
    })
}
