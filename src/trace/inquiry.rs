//! What a run says to a question: which question, which of the stages that answer it, and their paths.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::session::Engine;
use crate::stages::queries::sql_kind::literal;
use crate::trace::assemble::{ShownProofs, assemble};
use crate::trace::chain::Chain;
use crate::trace::document::{Answered, Audit, Question, Trace};
use crate::trace::find::{Candidate, resolve};
use crate::trace::item::{self, ItemTrace};
use crate::trace::read::Reader;
use crate::trace::roles::{instances, role};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::sentence::{normalized, normalized_sql};
use proofmill_base::suggest;
use proofmill_catalog::lineage::{Lineage, Table, TableId};
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::role::KindRole;
use proofmill_store::Store;

/// Names every stage that answers the question.
pub const ALL: &str = "all";
/// Questions of a table that are compared with the requested one.
const CANDIDATES_MAX: usize = 10_000;

/// What to trace.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// The question: its id, its text or a part of it, or the id of a hypothesis or a proof of it.
    pub question: String,
    /// The stage whose answer is traced, or [`ALL`]; the last that answers it when `None`.
    pub answers: Option<String>,
    pub shown: ShownProofs,
}

/// What a run says: with proofs, where a stage answers with them, or else the rows of the item in every table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Traced {
    Answers(Audit),
    Item(ItemTrace),
}

/// Traces the answers of a run to a question.
///
/// # Errors
///
/// When the question or the stage is not there or may be several; when a table is lost or damaged.
pub async fn trace(
    inquiry: &Inquiry,
    run: &RunSummary,
    store: &Store,
    engine: &Engine,
) -> Result<Traced> {
    let lineage = Lineage::load(run, store).await?;
    let mut reader = Reader::new(store, engine);
    let chains: Vec<Chain> = lineage
        .tables()
        .filter(|(_, table)| role(table).is_some_and(KindRole::is_answer))
        .map(|(id, _)| Chain::of(&lineage, id))
        .collect();
    let named = match inquiry.answers.as_deref() {
        None | Some(ALL) => None,
        Some(stage) => Some(lineage.named(stage).ok_or_else(|| no_stage(stage, &lineage))?),
    };
    let answers = |id: &TableId| {
        let parts = instances(&lineage, *id);
        chains.iter().any(|chain| parts.contains(&chain.answers))
    };
    let other = named.filter(|id| !answers(id));
    if other.is_some() || chains.is_empty() {
        let item = item::trace(&inquiry.question, other, run, &lineage, &mut reader).await?;
        return Ok(Traced::Item(item));
    }
    with_proofs(inquiry, run, &chains, &lineage, &mut reader).await.map(Traced::Answers)
}

async fn with_proofs(
    inquiry: &Inquiry,
    run: &RunSummary,
    chains: &[Chain],
    lineage: &Lineage,
    reader: &mut Reader<'_>,
) -> Result<Audit> {
    let question = find(&inquiry.question, lineage, reader).await?;
    let answers = answers(chains, &question, lineage, reader).await?;
    let chosen = choose(inquiry.answers.as_deref(), chains, &answers, &question, lineage)?;
    let mut audit = Audit {
        run: run.run.to_string(),
        pipeline: run.pipeline.clone(),
        question: Question { id: question.id.clone(), text: question.text },
        answers: Vec::new(),
        traces: Vec::new(),
    };
    for (chain, answered) in chains.iter().zip(answers) {
        let traced = chosen.contains(&chain.answers);
        audit.answers.extend(answered.map(|answered| Answered { traced, ..answered }));
    }
    for id in chosen {
        let table = lineage.table(id);
        let chain = Chain::of(lineage, id);
        let (found, mut tables) = chain.collect(lineage, reader, &question.id).await?;
        tables.insert("answers", table.name().to_owned());
        audit.traces.push(Trace {
            stage: table.name().to_owned(),
            kind: table.kind().to_owned(),
            fingerprint: table.artifact.fingerprint.to_string(),
            tables,
            ..assemble(&found, inquiry.shown)
        });
    }
    Ok(audit)
}

fn no_stage(wanted: &str, lineage: &Lineage) -> Error {
    let error = Error::new(ErrorKind::Usage, format!("the run has no stage `{wanted}`"));
    let names: Vec<&StageName> = lineage.tables().flat_map(|(_, table)| &table.stages).collect();
    let help = suggest::help(wanted, names.iter().map(|name| name.as_str()));
    help.into_iter().fold(error, Error::with_hint)
}

/// The question that is meant, among those that stages of the run answer or have hypotheses of.
async fn find(wanted: &str, lineage: &Lineage, reader: &mut Reader<'_>) -> Result<Candidate> {
    let of_row = question_of(wanted).unwrap_or(wanted);
    let (id, row_id, text) = (literal(wanted), literal(of_row), literal(&normalized(wanted)));
    let condition = format!(
        "question_id IN ({id}, {row_id}) OR strpos({}, {text}) > 0",
        normalized_sql("question")
    );
    let mut candidates = candidates(&condition, lineage, reader).await?;
    if candidates.is_empty() {
        let expands = |table: &Table| role(table) == Some(KindRole::Hypotheses);
        for (_, table) in lineage.tables().filter(|(_, table)| expands(table)) {
            if !reader.failures(table, of_row).await?.is_empty() {
                return Ok(Candidate { id: of_row.to_owned(), text: None });
            }
        }
        candidates = self::candidates("true", lineage, reader).await?;
    }
    let is_row = !candidates.iter().any(|candidate| candidate.id == wanted)
        && candidates.iter().any(|candidate| candidate.id == of_row);
    resolve(if is_row { of_row } else { wanted }, &candidates)
}

/// The question of a hypothesis, `question#choice`, or of a proof, `question#choice/attempt`.
fn question_of(row: &str) -> Option<&str> {
    let (question, rest) = row.rsplit_once('#')?;
    let choice = rest.split('/').next()?;
    (!choice.is_empty() && choice.bytes().all(|b| b.is_ascii_digit())).then_some(question)
}

async fn candidates(
    condition: &str,
    lineage: &Lineage,
    reader: &mut Reader<'_>,
) -> Result<Vec<Candidate>> {
    let sql = format!(
        "SELECT DISTINCT question_id, question FROM t WHERE {condition} LIMIT {CANDIDATES_MAX}"
    );
    let mut all = BTreeSet::new();
    let has_questions = |table: &Table| {
        role(table).is_some_and(|role| role.is_answer() || role == KindRole::Hypotheses)
    };
    for (_, table) in lineage.tables().filter(|(_, table)| has_questions(table)) {
        for row in reader.rows(table, &sql).await? {
            let text = row.text("question");
            all.extend(row.text("question_id").map(|id| Candidate { id, text }));
        }
    }
    Ok(all.into_iter().collect())
}

/// For each chain, what it says to the question; `None` if it never had it.
async fn answers(
    chains: &[Chain],
    question: &Candidate,
    lineage: &Lineage,
    reader: &mut Reader<'_>,
) -> Result<Vec<Option<Answered>>> {
    let mut all = Vec::with_capacity(chains.len());
    for chain in chains {
        let found = chain.decided(lineage, reader, &question.id).await?;
        let mut is_its = found.answer.is_some();
        for id in chain.losing(lineage) {
            is_its = is_its || !reader.failures(lineage.table(id), &question.id).await?.is_empty();
        }
        let table = lineage.table(chain.answers);
        let mut decision = assemble(&found, ShownProofs::All).decision;
        if let Some(decision) = &mut decision {
            // Without its proofs, the runner-up is unknown.
            decision.runner_up = None;
        }
        all.push(is_its.then(|| Answered {
            stage: table.name().to_owned(),
            kind: table.kind().to_owned(),
            same_as: table.stages.iter().skip(1).map(ToString::to_string).collect(),
            traced: false,
            decision,
        }));
    }
    Ok(all)
}

/// The tables to trace. Without a wish, the last that answers the question; if none does, the last
/// that had it.
fn choose(
    wanted: Option<&str>,
    chains: &[Chain],
    answers: &[Option<Answered>],
    question: &Candidate,
    lineage: &Lineage,
) -> Result<Vec<TableId>> {
    let having = |is_meant: &dyn Fn(&Answered) -> bool| -> Vec<TableId> {
        let both = chains.iter().zip(answers);
        let meant = both.filter(|(_, answered)| answered.as_ref().is_some_and(is_meant));
        meant.map(|(chain, _)| chain.answers).collect()
    };
    let all = having(&|_| true);
    let decided = having(&|answered| answered.decision.is_some());
    let Some(wanted) = wanted else {
        return Ok(decided.last().or(all.last()).copied().into_iter().collect());
    };
    let instances = match lineage.named(wanted) {
        Some(id) if lineage.table(id).kind() == "matrix_union" => lineage.inputs(id).collect(),
        Some(id) => vec![id],
        // All of them.
        None => return Ok(all),
    };
    let chosen: Vec<TableId> = instances.into_iter().filter(|id| all.contains(id)).collect();
    if chosen.is_empty() {
        let others: Vec<String> =
            all.iter().map(|id| format!("`{}`", lineage.table(*id).name())).collect();
        let message = format!("stage `{wanted}` does not answer question `{}`", question.id);
        let error = Error::new(ErrorKind::Usage, message);
        return Err(error.with_hint(format!("these do: {}", others.join(", "))));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hypotheses_and_proofs_name_their_question() {
        for (row, question) in [
            ("q#0", Some("q")),
            ("q#12/free", Some("q")),
            ("a#b#1/fact2", Some("a#b")),
            ("q", None),
            ("q#", None),
            ("q#x", None),
        ] {
            assert_eq!(question_of(row), question, "{row}");
        }
    }
}
