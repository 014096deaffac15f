//! The tables that an answer was made from, and the rows of a question in them.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, json};

use crate::stages::kinds::select_answer;
use crate::stages::queries::sql_kind::literal;
use crate::trace::assemble::Found;
use crate::trace::find::belongs;
use crate::trace::read::Reader;
use crate::trace::roles;
use crate::trace::row::JsonRow;
use crate::trace::source::Walk;
use proofmill_base::error::Result;
use proofmill_base::sentence::fact_id;
use proofmill_catalog::lineage::{Lineage, TableId};
use proofmill_pipeline::role::KindRole;

/// The columns of `teach` beside those of `select_answer`.
const LESSON: [&str; 8] =
    ["place", "round", "memory", "correct", "taught", "fact", "fact_id", "proofs"];
/// The columns that tell a table of judged proofs.
const JUDGED: [&str; 4] = ["proof_id", "premises", "accepted", "reject_reason"];

/// The tables that one stage's answers were made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    pub answers: TableId,
    /// Tables of `hypothesize` before them, nearest first.
    pub hypotheses: Vec<TableId>,
    pub beliefs: Option<TableId>,
    /// Proofs as they were judged.
    pub judged: Option<TableId>,
    /// What a query left out of `judged`.
    pub details: Option<TableId>,
    /// Tables of `prove` before `judged`, nearest first; none before a `proof_search`.
    pub written: Vec<TableId>,
    /// The `proof_search` that judged the proofs which it wrote.
    pub search: Option<TableId>,
}

impl Chain {
    /// Of a `select_answer` or `teach` stage.
    pub fn of(lineage: &Lineage, answers: TableId) -> Self {
        let all = |from: TableId, wanted| roles::upstream(lineage, from, wanted).collect();
        let from = lineage.input(answers, "from");
        let hypotheses = from.map(|from| all(from, KindRole::Hypotheses)).unwrap_or_default();
        if roles::is(lineage, answers, KindRole::Lessons) {
            return Self { answers, hypotheses, ..Self::default() };
        }
        let judged = lineage.input(answers, "proofs");
        let details = judged.and_then(|judged| lineage.nearest(judged, &JUDGED));
        let is_search = |id: &TableId| roles::is(lineage, *id, KindRole::SearchedProofs);
        let writes = |id: &TableId| is_search(id) || roles::is(lineage, *id, KindRole::Proofs);
        let nearest = judged.and_then(|judged| lineage.upstream(judged).into_iter().find(writes));
        let search = nearest.filter(is_search);
        let written = judged.filter(|_| search.is_none());
        Self {
            answers,
            hypotheses,
            beliefs: from,
            judged,
            details: details.filter(|details| Some(*details) != judged),
            written: written.map(|judged| all(judged, KindRole::Proofs)).unwrap_or_default(),
            search,
        }
    }

    /// The tables whose failures cost a question its answer.
    pub fn losing(&self, lineage: &Lineage) -> Vec<TableId> {
        let judge = self.beliefs.and_then(|beliefs| judge(lineage, beliefs));
        self.hypotheses.first().copied().into_iter().chain(judge).collect()
    }

    /// The rows of a question, and the names of their tables.
    ///
    /// # Errors
    ///
    /// When a table is lost or damaged.
    pub async fn collect(
        &self,
        lineage: &Lineage,
        reader: &mut Reader<'_>,
        question_id: &str,
    ) -> Result<(Found, BTreeMap<&'static str, String>)> {
        let mut names = Names { lineage, names: BTreeMap::new() };
        let mut found = self.decided(lineage, reader, question_id).await?;
        let mut failing = self.losing(lineage);
        if let Some(table) = self.worded(lineage, reader, question_id).await? {
            names.set("hypotheses", table);
        }
        if roles::is(lineage, self.answers, KindRole::Lessons) {
            found.threshold = lineage.table(self.answers).setting("threshold");
            self.lesson(lineage, reader, &mut found).await?;
        } else {
            if let Some(beliefs) = self.beliefs {
                names.set("beliefs", beliefs);
            }
            if let Some(judged) = self.judged {
                names.set("proofs_judged", judged);
                let judge = self.search.or_else(|| self::judge(lineage, judged));
                failing.extend(judge);
                found.threshold = lineage.table(judge.unwrap_or(judged)).setting("threshold");
            }
            found.judged = self.judged(lineage, reader, question_id).await?;
            let written = self.written(lineage, reader, question_id, &mut found).await?;
            if let Some(written) = written.or_else(|| self.written.first().copied()).or(self.search)
            {
                names.set("proofs_written", written);
                failing.push(written);
                if let Some(recalled) = lineage.input(written, "context") {
                    names.set("recalled", recalled);
                    failing.extend(queries_of(lineage, recalled));
                    self.recalled(lineage, reader, question_id, recalled, &mut found).await?;
                }
            }
        }
        let mut seen = HashSet::new();
        failing.retain(|id| seen.insert(*id));
        for id in failing {
            found.failures.extend(reader.failures(lineage.table(id), question_id).await?);
        }
        Ok((found, names.names))
    }

    /// The answer with the hypotheses that it was chosen from, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`Self::collect`].
    pub async fn decided(
        &self,
        lineage: &Lineage,
        reader: &mut Reader<'_>,
        question_id: &str,
    ) -> Result<Found> {
        let answer = reader.of_question(lineage.table(self.answers), question_id).await?;
        let mut own: Vec<&'static str> = select_answer::COLUMNS.to_vec();
        if roles::is(lineage, self.answers, KindRole::Lessons) {
            own.extend(LESSON);
        }
        own.extend(lineage.input(self.answers, "confirmed").map(|_| "confirmed"));
        let mut found = Found {
            answer: answer.into_iter().next(),
            own,
            proves: self.judged.is_some() || roles::is(lineage, self.answers, KindRole::Lessons),
            ..Found::default()
        };
        if let Some(table) = self.worded(lineage, reader, question_id).await? {
            found.hypotheses = reader.of_question(lineage.table(table), question_id).await?;
        }
        if let Some(beliefs) = self.beliefs {
            found.beliefs = reader.of_question(lineage.table(beliefs), question_id).await?;
        }
        Ok(found)
    }

    /// The nearest `hypothesize` stage with hypotheses of the question.
    async fn worded(
        &self,
        lineage: &Lineage,
        reader: &mut Reader<'_>,
        question_id: &str,
    ) -> Result<Option<TableId>> {
        for id in &self.hypotheses {
            if !reader.of_question(lineage.table(*id), question_id).await?.is_empty() {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }

    /// Proofs as they were judged; what a query left out comes from the table before it.
    async fn judged(
        &self,
        lineage: &Lineage,
        reader: &mut Reader<'_>,
        question_id: &str,
    ) -> Result<Vec<JsonRow>> {
        let Some(judged) = self.judged else { return Ok(Vec::new()) };
        let details = match self.details {
            Some(details) => rows_of(lineage, reader, details, question_id).await?,
            None => Vec::new(),
        };
        let mut rows = rows_of(lineage, reader, judged, question_id).await?;
        for row in &mut rows {
            let id = row.text("proof_id");
            if let Some(more) = details.iter().find(|more| more.text("proof_id") == id) {
                let mut whole = more.0.clone();
                whole.extend(std::mem::take(&mut row.0));
                row.0 = whole;
            }
        }
        Ok(rows)
    }

    /// Proofs as they were written, and the table of most of them. Where several `prove` stages come
    /// together, it is the text that tells whose a proof is.
    async fn written(
        &self,
        lineage: &Lineage,
        reader: &mut Reader<'_>,
        question_id: &str,
        found: &mut Found,
    ) -> Result<Option<TableId>> {
        let mut open: BTreeMap<String, Option<String>> = BTreeMap::new();
        for row in &found.judged {
            open.extend(row.text("proof_id").map(|id| (id, row.text("text"))));
        }
        let mut first = None;
        for id in &self.written {
            let rows = reader.of_question(lineage.table(*id), question_id).await?;
            // A stage that judges these proofs and no others has left out those that it could not
            // judge.
            let is_only = self.judged.and_then(|judged| lineage.input(judged, "from")) == Some(*id);
            for row in rows {
                let Some(proof) = row.text("proof_id") else { continue };
                let is_same = match open.get(&proof) {
                    Some(text) => text.is_none() || *text == row.text("text"),
                    None => false,
                };
                if is_same {
                    open.remove(&proof);
                }
                if is_same || is_only {
                    first = first.or(Some(*id));
                    found.written.push(row);
                }
            }
            if is_only || open.is_empty() {
                break;
            }
        }
        Ok(first)
    }

    /// What was recalled for the question, as its proofs tell, or the table of it if there are none.
    async fn recalled(
        &self,
        lineage: &Lineage,
        reader: &mut Reader<'_>,
        question_id: &str,
        recalled: TableId,
        found: &mut Found,
    ) -> Result<()> {
        let proofs = found.judged.iter().chain(&found.written);
        let context = proofs.map(|proof| proof.rows("context")).find(|facts| !facts.is_empty());
        found.recalled = match context {
            Some(context) => context,
            None => {
                let id = literal(question_id);
                let sql = format!("SELECT rank, score, fact_id, fact FROM t WHERE query_id = {id}");
                reader.rows(lineage.table(recalled), &sql).await?
            }
        };
        let facts = found.recalled.iter().filter_map(|row| row.text("fact"));
        let facts: Vec<_> = facts.map(|fact| (fact_id(&fact), fact)).collect();
        found.sources = Walk::new(lineage, reader, facts).from(recalled).await?;
        Ok(())
    }

    /// The proofs of a lesson, and with them the facts that were recalled and the beliefs.
    async fn lesson(
        &self,
        lineage: &Lineage,
        reader: &mut Reader<'_>,
        found: &mut Found,
    ) -> Result<()> {
        let Some(answer) = &found.answer else { return Ok(()) };
        found.judged = answer.rows("proofs");
        found.beliefs = believed(&found.judged, answer);
        let (rows, facts) = forced(&found.judged);
        found.recalled = rows;
        let round = answer.whole("round").unwrap_or_default();
        found.sources = Walk::new(lineage, reader, facts).before_round(self.answers, round).await?;
        Ok(())
    }
}

/// The rows of a question in a table of proofs, which may not say whose question they are.
async fn rows_of(
    lineage: &Lineage,
    reader: &mut Reader<'_>,
    id: TableId,
    question_id: &str,
) -> Result<Vec<JsonRow>> {
    let table = lineage.table(id);
    if table.has(&["question_id"]) {
        return reader.of_question(table, question_id).await;
    }
    let begin = literal(&format!("{question_id}#"));
    let sql = format!("SELECT * FROM t WHERE starts_with(proof_id, {begin})");
    let mut rows = reader.rows(table, &sql).await?;
    let is_its =
        |row: &JsonRow| row.text("proof_id").is_some_and(|proof| belongs(&proof, question_id));
    rows.retain(is_its);
    Ok(rows)
}

/// The direct beliefs that the proofs of a lesson and its answer tell.
fn believed(proofs: &[JsonRow], answer: &JsonRow) -> Vec<JsonRow> {
    let mut beliefs: BTreeMap<String, f64> = BTreeMap::new();
    for row in proofs.iter().chain([answer]) {
        beliefs.extend(row.text("hypothesis_id").zip(row.number("direct")));
    }
    let row = |(id, direct): (String, f64)| {
        JsonRow(Map::from_iter([
            ("hypothesis_id".to_owned(), json!(id)),
            ("direct".to_owned(), json!(direct)),
        ]))
    };
    beliefs.into_iter().map(row).collect()
}

/// The facts that proofs were made to begin with, as rows of what was recalled; and each fact's id with
/// the sentence that its proof begins with, which may have another full stop.
fn forced(proofs: &[JsonRow]) -> (Vec<JsonRow>, Vec<(String, String)>) {
    let mut rows: BTreeMap<(i64, String), Option<String>> = BTreeMap::new();
    for proof in proofs {
        let (Some(fact), Some(id)) = (proof.text("forced_fact_id"), proof.text("proof_id")) else {
            continue;
        };
        let rank = id.rsplit_once("/fact").and_then(|(_, rank)| rank.parse().ok());
        let begins = proof.rows("premises").first().and_then(|premise| premise.text("text"));
        let said = rows.entry((rank.unwrap_or(i64::MAX), fact)).or_default();
        *said = said.take().or(begins);
    }
    let row = |(rank, id): &(i64, String)| {
        JsonRow(Map::from_iter([
            ("rank".to_owned(), json!(rank)),
            ("fact_id".to_owned(), json!(id)),
        ]))
    };
    let recalled = rows.keys().map(row).collect();
    let facts = rows.into_iter().map(|((_, id), said)| (id, said.unwrap_or_default()));
    (recalled, facts.collect())
}

/// The nearest table of beliefs: `from`, or one upstream of it.
fn judge(lineage: &Lineage, from: TableId) -> Option<TableId> {
    roles::upstream(lineage, from, KindRole::Judgements).next()
}

/// The tables that the queries of a ranking went through, such as an `embed` stage: rows that failed
/// there recalled nothing.
fn queries_of(lineage: &Lineage, recalled: TableId) -> Vec<TableId> {
    let mut tables = Vec::new();
    let mut next = lineage.input(recalled, "from");
    while let Some(id) = next.filter(|id| !tables.contains(id)) {
        tables.push(id);
        next = lineage.input(id, "from");
    }
    tables.retain(|id| !roles::is(lineage, *id, KindRole::Source));
    tables
}

/// Names of tables by what they hold.
struct Names<'a> {
    lineage: &'a Lineage,
    names: BTreeMap<&'static str, String>,
}

impl Names<'_> {
    fn set(&mut self, what: &'static str, id: TableId) {
        self.names.insert(what, self.lineage.table(id).name().to_owned());
    }
}
