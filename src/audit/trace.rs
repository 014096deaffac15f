//! The path of an answer as a value: what `audit trace --json` prints, field by field in
//! `docs/specs/audit.md`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value as Json};

/// What a run says to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// The run.
    pub run: String,
    /// Its pipeline.
    pub pipeline: String,
    /// The question.
    pub question: Question,
    /// Every stage that answers it, in the order of the run.
    pub answers: Vec<Answered>,
    /// The paths of those that were asked for.
    pub traces: Vec<Trace>,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Its `question_id`.
    pub id: String,
    /// What is asked; none if the question was lost before it had a hypothesis.
    pub text: Option<String>,
}

/// A stage that answers the question, in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// Its name.
    pub stage: String,
    /// `decide` or `teach`.
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
    /// The stage that answers.
    pub stage: String,
    /// `decide` or `teach`.
    pub kind: String,
    /// Its fingerprint.
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
    /// Proofs that are not among those asked for.
    pub proofs_hidden: usize,
    /// Rows of the question that failed.
    pub failures: Vec<Failure>,
    /// What came of it; none if the question was lost on the way.
    pub decision: Option<Decision>,
    /// What the user made of it, for `teach`.
    pub lesson: Option<Lesson>,
}

/// A fact that was recalled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recalled {
    /// From 1.
    pub rank: Option<i64>,
    /// What the index says; none where it was not recorded.
    pub score: Option<f64>,
    /// Its id.
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
    Lesson(Taught),
    /// An entry of a `memory` stage.
    Entry(Entry),
    /// A row of a table that nothing before it explains.
    Row(SourceRow),
}

/// A lesson that put a fact into a memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Taught {
    /// The `teach` stage.
    pub stage: String,
    /// Place of the lesson, from 1.
    pub place: i64,
    /// Its round, from 1.
    pub round: i64,
    /// The question of the lesson.
    pub question_id: String,
    /// Its text.
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
    /// The stage.
    pub stage: String,
    /// The columns of the entry.
    pub columns: Map<String, Json>,
}

/// A row that holds the sentence.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceRow {
    /// The stage.
    pub stage: String,
    /// Its kind.
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
    /// Its id.
    pub hypothesis_id: String,
    /// From 0.
    pub choice: Option<i64>,
    /// Its label.
    pub label: Option<String>,
    /// The answer.
    pub answer: Option<String>,
    /// The answer as a sentence.
    pub hypothesis: Option<String>,
    /// The belief in it without a proof.
    pub direct: Option<f64>,
    /// The score of its best accepted proof, 0 without one; the belief where nothing is proved, and
    /// where a `search` kept no proof.
    pub score: f64,
    /// Whether the kept column `gold` names it.
    pub gold: Option<bool>,
    /// The request that wrote the sentence, if a model did.
    pub written_digest: Option<String>,
    /// The request that asked about the sentence alone.
    pub direct_digest: Option<String>,
    /// Its proofs.
    pub proofs: Vec<Proof>,
}

/// A proof of a hypothesis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Proof {
    /// Its id.
    pub proof_id: String,
    /// `free` or `forced`.
    pub strategy: Option<String>,
    /// The fact that it was made to begin with.
    pub forced_fact_id: Option<String>,
    /// What that fact says.
    pub forced_fact: Option<String>,
    /// What the model read.
    pub prompt: Option<String>,
    /// What it wrote, as it stands.
    pub text: Option<String>,
    /// Why it stopped.
    pub finish_reason: Option<String>,
    /// Tokens of `text`.
    pub output_tokens: Option<i64>,
    /// In the order of the proof.
    pub premises: Vec<Premise>,
    /// The belief that the premises entail the hypothesis.
    pub entailment: Option<f64>,
    /// Entailment times beliefs.
    pub score: Option<f64>,
    /// None if the proof was never judged.
    pub accepted: Option<bool>,
    /// Why not.
    pub reject_reason: Option<String>,
    /// Whether the answer rests on it.
    pub decides: bool,
    /// Of a `search`, the score with the premises as they were proved; for the best proof of a sentence.
    pub searched_score: Option<f64>,
    /// Of a `search`, whether it is part of the final tree.
    pub kept: Option<bool>,
    /// Of a `search`, why an accepted proof is not.
    pub drop_reason: Option<String>,
    /// The request that wrote it.
    pub written_digest: Option<String>,
    /// The requests that judged it: each premise that was asked about, the proof, the hypothesis.
    pub judged_digests: Vec<String>,
}

/// A premise of a proof.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Premise {
    /// The sentence.
    pub text: String,
    /// `memory` or `model`.
    pub origin: Option<String>,
    /// The fact that it is.
    pub fact_id: Option<String>,
    /// The belief in it.
    pub belief: Option<f64>,
    /// Whether that reaches the threshold.
    pub believed: Option<bool>,
    /// Of a `search`, the proofs of the sentence.
    pub proofs: Vec<Proof>,
}

/// A row of the question that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The stage that could not compute it.
    pub stage: String,
    /// The row: a question, a hypothesis or a proof.
    pub source: String,
    /// What kind of failure.
    pub class: String,
    /// What went wrong.
    pub message: String,
    /// What the model was to read, or what of it was kept.
    pub raw: String,
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Decision {
    /// The hypothesis that is the answer.
    pub hypothesis_id: Option<String>,
    /// Its label.
    pub label: Option<String>,
    /// The answer.
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
    /// Its id.
    pub hypothesis_id: String,
    /// Its label.
    pub label: Option<String>,
    /// The answer that it stands for.
    pub answer: Option<String>,
    /// Its score.
    pub score: f64,
}

/// What a lesson was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lesson {
    /// Its place, from 1.
    pub place: i64,
    /// Its round, from 1.
    pub round: i64,
    /// Facts that the memory held when the question was answered.
    pub memory: i64,
    /// Whether the user said something.
    pub taught: bool,
    /// What the user said.
    pub fact: Option<String>,
    /// The id of that fact.
    pub fact_id: Option<String>,
}
