//! The search itself: level by level, every sentence that is open gets its one-step proofs, and the
//! premises of the best one are the next level.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;

use crate::session::Engine;
use crate::stages::error::StageError;
use crate::stages::kinds::proof_search::forest::Forest;
use crate::stages::kinds::proof_search::judged::{Judged, Judgement};
use crate::stages::kinds::proof_search::{SearchPlan, asked_schema, table};
use crate::stages::queries::prepared_query::{Planner, PreparedQuery};
use crate::stages::sink::{Computed, Sink};
use crate::stages::tables::columns::texts;

/// What to do when a sentence has no answer.
const HELP: &str =
    "a tree depends on all its proofs: mend the prompts or the model, or set `truncate`";

/// The rows of the tables that a search needs.
pub struct Tables {
    pub hypotheses: Vec<RecordBatch>,
    /// What was recalled for their questions.
    pub context: Vec<RecordBatch>,
    pub blocked: Vec<RecordBatch>,
}

/// Searches.
pub async fn compute(
    plan: &SearchPlan,
    tables: Tables,
    engine: &Engine,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let hypotheses = concat_batches(&plan.hypotheses, &tables.hypotheses)?;
    let mut queries = Queries::new(plan, &tables, &Planner::new(engine, sink, HELP)).await?;
    let mut search = Search::new(&hypotheses, plan.context.is_some())?;
    let mut open = search.roots();
    for depth in 0..plan.depth {
        if open.is_empty() {
            break;
        }
        let asked = search.ask(&open, depth)?;
        search.judged.note(&queries.level(depth, &asked).await?)?;
        open = search.grow(&open);
    }
    sink.table(table::of(plan, &hypotheses, &search)?).await
}

/// The two queries of a level, and the tables that are the same for all.
struct Queries {
    /// With question and answer, if that is wanted.
    prove_hypotheses: PreparedQuery,
    prove_premises: PreparedQuery,
    judge: PreparedQuery,
    context: Option<RecordBatch>,
    blocked: Option<RecordBatch>,
}

impl Queries {
    async fn new(
        plan: &SearchPlan,
        tables: &Tables,
        planner: &Planner<'_>,
    ) -> Result<Self, StageError> {
        let SearchPlan { context, blocked, .. } = plan;
        let asked = asked_schema();
        let mut proving = vec![("hypotheses", &asked)];
        proving.extend(context.iter().map(|(_, schema)| ("recalled", schema)));
        let prove_hypotheses = planner.plan(&plan.prove_hypotheses, &proving).await?;
        let prove_premises = planner.plan(&plan.prove_premises, &proving).await?;
        let mut judging = vec![("judged", prove_hypotheses.schema())];
        judging.extend(blocked.iter().map(|(_, schema)| ("blocked", schema)));
        let judge = planner.plan(&plan.judge, &judging).await?;
        let whole = |schema: &Option<_>, rows: &[RecordBatch]| match schema {
            Some((_, schema)) => concat_batches(schema, rows).map(Some),
            None => Ok(None),
        };
        let context = whole(context, &tables.context)?;
        let blocked = whole(blocked, &tables.blocked)?;
        Ok(Self { prove_hypotheses, prove_premises, judge, context, blocked })
    }

    /// The judged proofs of what is asked at a depth.
    async fn level(&mut self, depth: u32, asked: &RecordBatch) -> Result<RecordBatch, StageError> {
        let prove = if depth == 0 { &mut self.prove_hypotheses } else { &mut self.prove_premises };
        let mut tables = vec![asked];
        tables.extend(&self.context);
        let proofs = prove.run(&tables).await?;
        let mut tables = vec![&proofs];
        tables.extend(&self.blocked);
        self.judge.run(&tables).await
    }
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
    has_context: bool,
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
    fn new(hypotheses: &RecordBatch, has_context: bool) -> Result<Self, StageError> {
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
            has_context,
            asked: 0,
            questions,
        })
    }

    fn roots(&self) -> Vec<usize> {
        (0..self.root_of.len()).collect()
    }

    /// The rows that ask for proofs of the claims that are open, each sentence once.
    fn ask(&mut self, open: &[usize], depth: u32) -> Result<RecordBatch, StageError> {
        let mut new = Vec::new();
        for &number in open {
            let question = self.questions.ids.value(self.root_of[number]);
            let question = self.has_context.then(|| question.to_owned());
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
    fn grow(&mut self, open: &[usize]) -> Vec<usize> {
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
