//! The walk through the questions: round after round is answered, and the memory grows between them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use indexmap::IndexMap;

use crate::session::Engine;
use crate::stages::error::StageError;
use crate::stages::kinds::teach::memory::{self, Memory};
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::queries::prepared_query::{Planner, PreparedQuery};
use crate::stages::sink::{Computed, Sink};
use crate::stages::tables::columns::{flags, texts};
use proofmill_base::digest::Digest;
use proofmill_base::ids::StageName;
use proofmill_pipeline::kinds::teach::Teach;

/// What to do when a question has no answer.
const HELP: &str = "a lesson depends on all previous ones: change the prompts or the model";

/// What a round computes, query by query.
#[derive(Debug)]
pub struct TeachPlan {
    /// The stage of the hypotheses.
    pub from: StageName,
    /// The stage of the facts that are there from the start.
    pub memory: Option<StageName>,
    pub settings: Teach,
    pub hypotheses: SchemaRef,
    pub prove: String,
    pub judge_proofs: String,
    pub judge_hypotheses: String,
    pub decide: String,
    pub lessons: String,
    pub schema: SchemaRef,
}

#[async_trait]
impl StagePlan for TeachPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let hypotheses = execution.rows(Some(&self.from)).await?;
        let memory = execution.rows(self.memory.as_ref()).await?;
        compute(self, hypotheses, memory, execution.engine, execution.sink).await
    }
}

/// Teaches.
async fn compute(
    plan: &TeachPlan,
    hypotheses: Vec<RecordBatch>,
    facts: Vec<RecordBatch>,
    engine: &Engine,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let all = concat_batches(&plan.hypotheses, &hypotheses)?;
    let questions = questions(&all, plan.settings.order)?;
    let mut memory = Memory::new(plan.settings.analyzer)?;
    for batch in &facts {
        let facts = texts(batch, "fact")?;
        facts.iter().flatten().try_for_each(|fact| memory.learn(fact))?;
    }
    let mut queries = Queries::new(plan, &all, &Planner::new(engine, sink, HELP)).await?;
    let mut part = sink.part(0, 1);
    let mut place = 0;
    for (round, some) in questions.chunks(plan.settings.round as usize).enumerate() {
        let before = memory.len();
        let answered = queries.answer(some, &memory).await?;
        let lessons = with_places(plan, &answered, some, (place, round as i64 + 1, before))?;
        place += some.len() as i64;
        for (taught, fact) in flags(&lessons, "taught")?.iter().zip(&texts(&lessons, "fact")?) {
            if let (Some(true), Some(fact)) = (taught, fact) {
                memory.learn(fact)?;
            }
        }
        part.write(lessons).await?;
    }
    Ok(Computed::of([part.finish().await?]))
}

/// A question and the rows of its hypotheses.
struct Question {
    id: String,
    text: String,
    rows: Vec<u32>,
}

/// The questions in the order in which they are answered.
fn questions(all: &RecordBatch, order: Option<u64>) -> Result<Vec<Question>, StageError> {
    let texts = texts(all, "question")?;
    let text = |row: &u32| texts.value(*row as usize).to_owned();
    let question = |(id, rows): (String, Vec<u32>)| {
        let text = rows.first().map(text).unwrap_or_default();
        Question { id, text, rows }
    };
    let mut questions: Vec<Question> = by_question(all)?.into_iter().map(question).collect();
    if let Some(seed) = order {
        // By digest: the same order however the table is stored.
        questions.sort_by_cached_key(|question| {
            Digest::of(format!("{seed}\n{}", question.id).as_bytes()).to_string()
        });
    }
    Ok(questions)
}

/// The rows of each question, in the order of the table.
fn by_question(table: &RecordBatch) -> Result<IndexMap<String, Vec<u32>>, StageError> {
    let mut rows: IndexMap<String, Vec<u32>> = IndexMap::new();
    for (row, id) in (0..).zip(&texts(table, "question_id")?) {
        rows.entry(id.unwrap_or_default().to_owned()).or_default().push(row);
    }
    Ok(rows)
}

/// The prepared queries of a round.
struct Queries<'a> {
    recall: usize,
    /// Whether proofs are compared with the memory.
    rejects: bool,
    hypotheses: &'a RecordBatch,
    /// The direct beliefs in all hypotheses, which no memory changes, and the rows of each question.
    beliefs: RecordBatch,
    believed: IndexMap<String, Vec<u32>>,
    prove: PreparedQuery,
    judge: PreparedQuery,
    decide: PreparedQuery,
    lessons: PreparedQuery,
}

impl<'a> Queries<'a> {
    async fn new(
        plan: &TeachPlan,
        hypotheses: &'a RecordBatch,
        planner: &Planner<'_>,
    ) -> Result<Self, StageError> {
        let schema = hypotheses.schema();
        let facts = memory::schema();
        let mut believe = planner.plan(&plan.judge_hypotheses, &[("judged", &schema)]).await?;
        let tables = [("hypotheses", &schema), ("recalled", &facts)];
        let prove = planner.plan(&plan.prove, &tables).await?;
        let rejects = plan.settings.reject_contradicted;
        let known = memory::facts_schema();
        let mut tables = vec![("judged", prove.schema())];
        tables.extend(rejects.then_some(("memory", &known)));
        let judge = planner.plan(&plan.judge_proofs, &tables).await?;
        let tables = [("hypotheses", believe.schema()), ("proofs", judge.schema())];
        let decide = planner.plan(&plan.decide, &tables).await?;
        let tables = [("answers", decide.schema()), ("proofs", judge.schema())];
        let lessons = planner.plan(&plan.lessons, &tables).await?;
        let beliefs = believe.run(&[hypotheses]).await?;
        let believed = by_question(&beliefs)?;
        let recall = plan.settings.recall as usize;
        Ok(Self { recall, rejects, hypotheses, beliefs, believed, prove, judge, decide, lessons })
    }

    /// The answers to some questions with the memory as it is.
    async fn answer(
        &mut self,
        some: &[Question],
        memory: &Memory,
    ) -> Result<RecordBatch, StageError> {
        let rows: UInt32Array = some.iter().flat_map(|question| question.rows.clone()).collect();
        let hypotheses = take_record_batch(self.hypotheses, &rows)?;
        let rows = some.iter().filter_map(|question| self.believed.get(&question.id));
        let rows: UInt32Array = rows.flatten().copied().collect();
        let beliefs = take_record_batch(&self.beliefs, &rows)?;
        let questions: Vec<(&str, &str)> =
            some.iter().map(|question| (question.id.as_str(), question.text.as_str())).collect();
        let recalled = memory.recall(&questions, self.recall)?;
        let proofs = self.prove.run(&[&hypotheses, &recalled]).await?;
        let known = if self.rejects { Some(memory.table()?) } else { None };
        let tables: Vec<&RecordBatch> = std::iter::once(&proofs).chain(&known).collect();
        let judged = self.judge.run(&tables).await?;
        let answers = self.decide.run(&[&beliefs, &judged]).await?;
        self.lessons.run(&[&answers, &judged]).await
    }
}

/// The lessons of a round in the order of its questions, with what comes before and behind them.
fn with_places(
    plan: &TeachPlan,
    answered: &RecordBatch,
    some: &[Question],
    (first, round, memory): (i64, i64, usize),
) -> Result<RecordBatch, StageError> {
    let ids = texts(answered, "question_id")?;
    let rows: HashMap<&str, u32> = ids.iter().flatten().zip(0..).collect();
    let order: UInt32Array =
        some.iter().map(|question| rows.get(question.id.as_str()).copied()).collect();
    let answered = take_record_batch(answered, &order)?;
    let count = answered.num_rows();
    let fact_ids: StringArray =
        texts(&answered, "fact")?.iter().map(|fact| fact.map(memory::fact_id)).collect();
    let numbers = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let mut columns = vec![
        numbers((first + 1..=first + count as i64).collect()),
        numbers(vec![round; count]),
        numbers(vec![memory as i64; count]),
    ];
    columns.extend(answered.columns().iter().cloned());
    columns.push(Arc::new(fact_ids));
    Ok(RecordBatch::try_new(Arc::clone(&plan.schema), columns)?)
}
