//! What a search has found so far: its trees, what was asked for which sentence, and the answers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::stages::error::StageError;
use crate::stages::kinds::proof_search::forest::Forest;
use crate::stages::kinds::proof_search::judged::{Judged, Judgement};
use crate::stages::tables::columns::texts;

/// What a hypothesis is asked with.
pub const ASKED: [&str; 6] =
    ["hypothesis_id", "question_id", "question", "label", "answer", "hypothesis"];

/// Columns of what a level asks.
pub fn asked_schema() -> SchemaRef {
    let fields = ASKED.map(|name| Field::new(name, DataType::Utf8, false));
    Arc::new(Schema::new(fields.to_vec()))
}

/// What was found so far.
pub struct Search {
    pub forest: Forest,
    /// For each claim the row of its hypothesis.
    pub root_of: Vec<usize>,
    /// For each claim that was open the number under which its proofs were asked for.
    pub asked_as: HashMap<usize, usize>,
    pub judged: Judged,
    /// The sentences that were asked about, with the question whose facts they were proved with.
    known: HashMap<(Option<String>, String), usize>,
    /// Whether proofs depend on the question, by its facts.
    by_question: bool,
    /// How many numbers are taken.
    asked: usize,
    questions: Questions,
}

/// What the hypotheses are asked with, row by row.
struct Questions {
    ids: StringArray,
    texts: StringArray,
    labels: StringArray,
    answers: StringArray,
}

impl Search {
    pub fn new(hypotheses: &RecordBatch, by_question: bool) -> Result<Self, StageError> {
        let questions = Questions {
            ids: texts(hypotheses, "question_id")?,
            texts: texts(hypotheses, "question")?,
            labels: texts(hypotheses, "label")?,
            answers: texts(hypotheses, "answer")?,
        };
        let mut forest = Forest::default();
        let claims = texts(hypotheses, "hypothesis")?;
        claims.iter().for_each(|text| {
            forest.plant(text.unwrap_or_default().to_owned());
        });
        let root_of = (0..hypotheses.num_rows()).collect();
        Ok(Self {
            forest,
            root_of,
            asked_as: HashMap::new(),
            judged: Judged::default(),
            known: HashMap::new(),
            by_question,
            asked: 0,
            questions,
        })
    }

    pub fn roots(&self) -> Vec<usize> {
        (0..self.root_of.len()).collect()
    }

    /// The rows that ask for proofs of the claims that are open, each sentence once.
    pub fn ask(&mut self, open: &[usize], depth: u32) -> Result<RecordBatch, StageError> {
        let mut new = Vec::new();
        for &number in open {
            let question = self.questions.ids.value(self.root_of[number]);
            let question = self.by_question.then(|| question.to_owned());
            // Hypotheses are asked with their answers, so each for itself.
            let known = match depth {
                0 => None,
                _ => match self.known.entry((question, self.forest.claim(number).text.clone())) {
                    Entry::Occupied(known) => Some(*known.get()),
                    Entry::Vacant(place) => {
                        place.insert(self.asked);
                        None
                    }
                },
            };
            let asked_as = known.unwrap_or_else(|| {
                new.push((self.asked, number));
                self.asked += 1;
                self.asked - 1
            });
            self.asked_as.insert(number, asked_as);
        }
        let of_root = |column: &StringArray| -> ArrayRef {
            let rows = new.iter().map(|(_, number)| self.root_of[*number]);
            Arc::new(StringArray::from_iter_values(rows.map(|row| column.value(row))))
        };
        let ids = new.iter().map(|(asked, _)| asked.to_string());
        let claims = new.iter().map(|(_, number)| &self.forest.claim(*number).text);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(ids)),
            of_root(&self.questions.ids),
            of_root(&self.questions.texts),
            of_root(&self.questions.labels),
            of_root(&self.questions.answers),
            Arc::new(StringArray::from_iter_values(claims)),
        ];
        Ok(RecordBatch::try_new(asked_schema(), columns)?)
    }

    /// Gives the open claims their best proofs; the premises that are open in their turn.
    pub fn grow(&mut self, open: &[usize]) -> Vec<usize> {
        let mut next = Vec::new();
        for &number in open {
            let Some(asked) = self.asked_as.get(&number) else { continue };
            if let Some(direct) = self.judged.direct(*asked) {
                self.forest.believe(number, direct);
            }
            let Some(Judgement { entailment, premises, .. }) = self.judged.best(*asked) else {
                continue;
            };
            let premises = self.forest.prove(number, *entailment, premises.iter().cloned());
            let root = self.root_of[number];
            self.root_of.extend(premises.clone().map(|_| root));
            next.extend(premises.filter(|&premise| self.forest.is_open(premise)));
        }
        next
    }
}
