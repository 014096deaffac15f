//! What a search has found so far: its trees, the request of each sentence, and the answers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::stages::error::StageError;
use crate::stages::kinds::proof_search::forest::Forest;
use crate::stages::kinds::proof_search::judged::{Judged, Judgement};
use crate::stages::tables::columns::texts;

/// Columns of a hypothesis that a request has.
pub const REQUEST_COLUMNS: [&str; 6] =
    ["hypothesis_id", "question_id", "question", "label", "answer", "hypothesis"];

/// The columns of the requests of a level.
pub fn request_schema() -> SchemaRef {
    let fields = REQUEST_COLUMNS.map(|name| Field::new(name, DataType::Utf8, false));
    Arc::new(Schema::new(fields.to_vec()))
}

/// What was found so far.
pub struct Search {
    pub forest: Forest,
    /// For each claim the row of its hypothesis.
    pub root_of: Vec<usize>,
    /// For each claim that was open, the number of the request for its proofs.
    pub request_of: HashMap<usize, usize>,
    pub judged: Judged,
    /// The number of the request for a sentence, by the question whose facts its proofs use.
    known: HashMap<(Option<String>, String), usize>,
    /// Whether proofs depend on the question, by its facts.
    by_question: bool,
    /// The number of requests so far, which is the number of the next one.
    requests: usize,
    questions: Questions,
}

/// What requests take from the hypotheses, row by row.
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
            request_of: HashMap::new(),
            judged: Judged::default(),
            known: HashMap::new(),
            by_question,
            requests: 0,
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
            // The request for a hypothesis includes its answer, so each has its own.
            let known = match depth {
                0 => None,
                _ => match self.known.entry((question, self.forest.claim(number).text.clone())) {
                    Entry::Occupied(known) => Some(*known.get()),
                    Entry::Vacant(place) => {
                        place.insert(self.requests);
                        None
                    }
                },
            };
            let request = known.unwrap_or_else(|| {
                new.push((self.requests, number));
                self.requests += 1;
                self.requests - 1
            });
            self.request_of.insert(number, request);
        }
        let of_root = |column: &StringArray| -> ArrayRef {
            let rows = new.iter().map(|(_, number)| self.root_of[*number]);
            Arc::new(StringArray::from_iter_values(rows.map(|row| column.value(row))))
        };
        let ids = new.iter().map(|(request, _)| request.to_string());
        let claims = new.iter().map(|(_, number)| &self.forest.claim(*number).text);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(ids)),
            of_root(&self.questions.ids),
            of_root(&self.questions.texts),
            of_root(&self.questions.labels),
            of_root(&self.questions.answers),
            Arc::new(StringArray::from_iter_values(claims)),
        ];
        Ok(RecordBatch::try_new(request_schema(), columns)?)
    }

    /// Gives the open claims their best proofs; the premises that are open in their turn.
    pub fn grow(&mut self, open: &[usize]) -> Vec<usize> {
        let mut next = Vec::new();
        for &number in open {
            let Some(request) = self.request_of.get(&number) else { continue };
            if let Some(direct) = self.judged.direct(*request) {
                self.forest.believe(number, direct);
            }
            let Some(Judgement { entailment, premises, .. }) = self.judged.best(*request) else {
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
