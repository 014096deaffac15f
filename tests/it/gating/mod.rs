//! Gates: verdicts about runs, what they may be derived from, and the channels that they move.

mod attacks;
mod cases;
mod models;
mod nights;
mod pages;
mod recomputed;
mod system;
mod verdicts;

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::support::{Done, Workspace};

const PIPELINE: &str = "\
pipeline: nightly
params: { answers: a.csv, wording: is it }
stages:
  answers: { read: { path: \"${params.answers}\" } }
  scored:
    sql: SELECT id, sample, doc, correct, score, '${params.wording}' AS wording FROM answers
  judged: { measure: { from: scored, correct: correct } }
  rated: { measure: { from: scored, metrics: { score: score } } }
";

/// An answer: question, sample, document, whether it is right, and a score.
#[derive(Clone, Debug)]
pub struct Answer {
    pub id: String,
    pub sample: usize,
    pub doc: String,
    pub correct: Option<bool>,
    pub score: Option<f64>,
}

/// So many questions with one sample each, the first `right` of which are right.
pub fn answers(questions: usize, right: usize) -> Vec<Answer> {
    let answer = |n: usize| Answer {
        id: format!("q{n:04}"),
        sample: 0,
        doc: format!("d{}", n / 5),
        correct: Some(n < right),
        score: Some(0.0),
    };
    (0..questions).map(answer).collect()
}

/// A workspace in which runs are compared.
pub struct Gated(pub Workspace);

impl Gated {
    pub fn new(gate: &str) -> Self {
        let workspace = Workspace::with(PIPELINE);
        workspace.write("gate.yaml", format!("kind: gate\nname: answers\n{gate}"));
        Self(workspace)
    }

    /// Runs the pipeline over some answers: the id of the run.
    #[track_caller]
    pub fn run(&self, answers: &[Answer], more: &[&str]) -> String {
        let mut text = "id,sample,doc,correct,score\n".to_owned();
        for it in answers {
            let correct = it.correct.map(|it| it.to_string()).unwrap_or_default();
            let score = it.score.map(|it| format!("{it:?}")).unwrap_or_default();
            writeln!(text, "{},{},{},{correct},{score}", it.id, it.sample, it.doc).unwrap();
        }
        self.0.write("a.csv", text);
        let args = [&["run", "p.yaml"], more].concat();
        self.0.json(&args)["run"].as_str().unwrap().to_owned()
    }

    pub fn gate(&self, more: &[&str]) -> Done {
        self.0.proofmill(&[&["gate", "--file", "gate.yaml", "--json"], more].concat())
    }

    /// The verdict about the last run against the one before.
    #[track_caller]
    pub fn verdict(&self) -> Json {
        self.gate(&[]).json()
    }

    /// Runs twice and judges: the word, and why.
    #[track_caller]
    pub fn judge(&self, before: &[Answer], after: &[Answer]) -> (String, Json) {
        self.run(before, &[]);
        self.run(after, &[]);
        let verdict = self.verdict();
        (verdict["judgement"]["word"].as_str().unwrap().to_owned(), verdict)
    }

    /// What people are told of the last run.
    pub fn shown(&self) -> String {
        self.0.proofmill(&["gate", "--file", "gate.yaml"]).stdout
    }
}

pub const ACCURACY: &str = "metrics: [{ metric: judged.accuracy, min_effect: 0.05, unit: [id] }]\n";
