//! The path of an answer as a value: what `audit trace --json` prints, field by field in
//! `docs/specs/audit.md`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value as Json};

/// What a run says to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    pub run: String,
    pub pipeline: String,
    pub question: Question,
    /// Every stage that answers it, in the order of the run.
    pub answers: Vec<Answered>,
    /// The paths of those that were requested.
    pub traces: Vec<Trace>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Its `question_id`.
    pub id: String,
    /// Its text; none if the question was lost before it had a hypothesis.
    pub text: Option<String>,
}

/// A stage that answers the question, in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    pub stage: String,
    /// `select_answer` or `teach`.
    pub kind: String,
    /// Other names of the same table: stages that compute the same share it.
    pub same_as: Vec<String>,
    /// Whether its path is among the traces.
    pub traced: bool,
    /// What it decided; none if the question was lost on the way.
    pub decision: Option<Decision>,
}

/// The path of one answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trace {
    pub stage: String,
    /// `select_answer` or `teach`.
    pub kind: String,
    pub fingerprint: String,
    /// The tables that the rows below stand in, by what they hold.
    pub tables: BTreeMap<&'static str, String>,
    /// Columns of the question that the answer kept.
    pub kept: Map<String, Json>,
    /// What a belief must reach; none where the run does not say.
    pub threshold: Option<f64>,
    /// What the memory gave, best first.
    pub recalled: Vec<Recalled>,
    /// In the order of the choices.
    pub hypotheses: Vec<Hypothesis>,
    /// Proofs that are not among those requested.
    pub proofs_hidden: usize,
    /// Rows of the question that failed.
    pub failures: Vec<Failure>,
    /// What came of it; none if the question was lost on the way.
    pub decision: Option<Decision>,
    /// What the user made of it, for `teach`.
    pub lesson: Option<LessonRow>,
}

/// A fact that was recalled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recalled {
    /// From 1.
    pub rank: Option<i64>,
    /// What the index says; none where it was not recorded.
    pub score: Option<f64>,
    pub fact_id: String,
    /// What it says; none where it was not recorded.
    pub fact: Option<String>,
    /// Accepted proofs with this fact among their premises.
    pub used_by: Vec<String>,
    /// Tables that the sentence came through, nearest first.
    pub through: Vec<String>,
    /// Who or what put it there; several where the run does not tell which.
    pub origins: Vec<Origin>,
}

/// Who or what put a fact into a memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// A lesson of a `teach` stage.
    Lesson(TaughtFact),
    /// An entry of a `memory` stage.
    Entry(Entry),
    /// A row of a table that nothing before it explains.
    Row(SourceRow),
}

/// A lesson that put a fact into a memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaughtFact {
    /// The `teach` stage.
    pub stage: String,
    /// Place of the lesson, from 1.
    pub place: i64,
    /// Its round, from 1.
    pub round: i64,
    /// The question of the lesson.
    pub question_id: String,
    pub question: Option<String>,
    /// The answer that was corrected.
    pub answer: Option<String>,
    /// Whether the answer was right all the same, as with `feedback: all`.
    pub correct: Option<bool>,
    /// The proof of that answer, if it had one.
    pub proof_id: Option<String>,
    /// Places of later lessons of the stage that said the same.
    pub again: Vec<i64>,
}

/// An entry of a `memory` stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Entry {
    pub stage: String,
    pub columns: Map<String, Json>,
}

/// A row that holds the sentence.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceRow {
    pub stage: String,
    pub stage_kind: String,
    /// The column that holds the sentence.
    pub column: String,
    /// Rows of the table that hold it.
    pub rows: usize,
    /// The other columns of the first of them, without lists.
    pub columns: Map<String, Json>,
}

/// A possible answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hypothesis {
    pub hypothesis_id: String,
    /// From 0.
    pub choice: Option<i64>,
    pub label: Option<String>,
    pub answer: Option<String>,
    pub hypothesis: Option<String>,
    /// The belief in it without a proof.
    pub direct: Option<f64>,
    /// The score of its best accepted proof, 0 without one; the belief where nothing is proved, and
    /// where a `proof_search` kept no proof.
    pub score: f64,
    /// Whether the kept column `gold` names it.
    pub gold: Option<bool>,
    /// The request that wrote the sentence, if a model did.
    pub written_digest: Option<String>,
    /// The request about the sentence alone.
    pub direct_digest: Option<String>,
    pub proofs: Vec<Proof>,
}

/// A proof of a hypothesis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Proof {
    pub proof_id: String,
    /// `free` or `forced`.
    pub strategy: Option<String>,
    /// The fact that it was made to begin with.
    pub forced_fact_id: Option<String>,
    pub forced_fact: Option<String>,
    pub prompt: Option<String>,
    /// What it wrote, as it stands.
    pub text: Option<String>,
    pub finish_reason: Option<String>,
    /// Tokens of `text`.
    pub output_tokens: Option<i64>,
    pub premises: Vec<Premise>,
    /// The belief that the premises entail the hypothesis.
    pub entailment: Option<f64>,
    pub score: Option<f64>,
    /// None if the proof was never judged.
    pub accepted: Option<bool>,
    /// Why not.
    pub reject_reason: Option<String>,
    /// Whether the answer rests on it.
    pub decides: bool,
    /// Of a `proof_search`, the score with the premises as they were proved; for the best proof of a sentence.
    pub searched_score: Option<f64>,
    /// Of a `proof_search`, whether it is part of the final tree.
    pub kept: Option<bool>,
    /// Of a `proof_search`, why an accepted proof is not.
    pub drop_reason: Option<String>,
    pub written_digest: Option<String>,
    /// The requests that judged it: about each judged premise, the proof, the hypothesis.
    pub judged_digests: Vec<String>,
}

/// A premise of a proof.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Premise {
    pub text: String,
    /// `memory` or `model`.
    pub origin: Option<String>,
    pub fact_id: Option<String>,
    pub belief: Option<f64>,
    /// Whether that reaches the threshold.
    pub believed: Option<bool>,
    /// The fact of the memory that says otherwise.
    pub contradicted_by: Option<String>,
    /// Of a `proof_search`, the proofs of the sentence.
    pub proofs: Vec<Proof>,
}

/// A row of the question that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The stage that could not compute it.
    pub stage: String,
    /// The row: a question, a hypothesis or a proof.
    pub source: String,
    pub class: String,
    pub message: String,
    /// What the model was to read, or what of it was kept.
    pub raw: String,
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Decision {
    /// The hypothesis that is the answer.
    pub hypothesis_id: Option<String>,
    pub label: Option<String>,
    pub answer: Option<String>,
    /// `proved`, `fallback_direct`, `no_proof`, `direct` or `confirmed`.
    pub status: Option<String>,
    /// Of the best proof; the belief where nothing is proved.
    pub score: Option<f64>,
    /// The belief in the answer without a proof.
    pub direct: Option<f64>,
    /// How far the runner-up is behind.
    pub margin: Option<f64>,
    /// The proof that the answer rests on.
    pub proof_id: Option<String>,
    /// Hypotheses with an accepted proof.
    pub proved: Option<i64>,
    /// The answer that a user confirmed.
    pub confirmed: Option<String>,
    /// Whether the answer is right: the column `correct`, else by the kept column `gold`.
    pub correct: Option<bool>,
    /// The hypothesis that is next.
    pub runner_up: Option<RunnerUp>,
}

/// The hypothesis behind the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunnerUp {
    pub hypothesis_id: String,
    pub label: Option<String>,
    /// The answer that it stands for.
    pub answer: Option<String>,
    pub score: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LessonRow {
    /// Its place, from 1.
    pub place: i64,
    /// Its round, from 1.
    pub round: i64,
    /// Facts that the memory held when the question was answered.
    pub memory: i64,
    /// Whether the user said something.
    pub taught: bool,
    pub fact: Option<String>,
    pub fact_id: Option<String>,
}
