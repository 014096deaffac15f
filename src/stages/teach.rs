//! `teach`: questions are answered in turn, each with the memory that the corrections before it left.
//!
//! Source: TeachMe, section 4.1 (the simulated user). A round of several questions is answered with
//! one memory; a round of one is the paper's sequence.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::collect;

use crate::digest::Digest;
use crate::graph::{Role, Stage};
use crate::ids::StageName;
use crate::session::{self, Engine};
use crate::spec::code::Code;
use crate::spec::kinds::decide::Decide;
use crate::spec::kinds::prove::Prove;
use crate::spec::kinds::teach::{Feedback, Teach};
use crate::spec::kinds::verify::Verify;
use crate::sqltext;
use crate::stages::components::Components;
use crate::stages::error::StageError;
use crate::stages::lowered::{self, ERROR, Named, after_comma, inside};
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};
use crate::stages::prepared::Body;
use crate::stages::query::set_model;
use crate::stages::sink::{Computed, Sink};
use crate::stages::{decide, prove, verify};

mod memory;

use memory::Memory;

const KIND: &str = "teach";
/// The columns of a lesson before those of the answer.
const BEFORE: [&str; 3] = ["place", "round", "memory"];
/// The columns of a lesson behind those of the answer.
const AFTER: [&str; 5] = ["correct", "taught", "fact_id", "fact", "proofs"];

/// What a round computes, query by query.
#[derive(Debug)]
pub struct TeachPlan {
    /// The stage of the hypotheses.
    pub from: StageName,
    /// The stage of the facts that are there from the start.
    pub memory: Option<StageName>,
    settings: Teach,
    hypotheses: SchemaRef,
    prove: String,
    judge_proofs: String,
    judge_hypotheses: String,
    decide: String,
    lessons: String,
    schema: SchemaRef,
}

/// Checks the settings and plans a round.
pub fn prepare(
    stage: &Stage,
    settings: &Teach,
    tables: &Tables,
    engine: &Engine,
    mut components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let from = stage.input(&Role::From)?.clone();
    let hypotheses = tables.get(&from)?.schema();
    let memory = stage.input(&Role::Memory).cloned();
    let columns =
        ["hypothesis_id", "question_id", "question", "choice", "label", "answer", "hypothesis"];
    let help = "name the table of a `hypothesize` stage";
    let own: Vec<&str> = BEFORE.into_iter().chain(AFTER).chain(decide::COLUMNS).collect();
    let mut sound = vec![
        lowered::expect_columns((KIND, "from"), &columns, &hypotheses, help, place),
        lowered::model(&[KIND, "model"], &settings.model, engine, place),
        lowered::keep(KIND, &settings.keep, &own, &hypotheses, place),
        lowered::options(&[KIND, "options"], &settings.options, engine, place),
    ];
    if !settings.free && !settings.forced {
        let message = "proofs are neither free nor forced: none is written".to_owned();
        place.mistake(&[KIND, "forced"], Code::WrongValue, message, None);
        sound.push(None);
    }
    if let Some(memory) = &memory {
        let schema = tables.get(memory)?.schema();
        sound.push(place.text_column(&[KIND, "memory"], "fact", &schema).map(drop));
    }
    if sound.contains(&None) {
        return None;
    }
    let steps = Steps::of(settings);
    let mut planner = Planner { engine, components: &mut components, place };
    let proofs_sql = prove::query(&steps.prove, true);
    let proofs = planner
        .plan(&proofs_sql, &[("hypotheses", &hypotheses), ("recalled", &memory::schema())])?;
    let judge_proofs = verify::query(&steps.verify, &proofs, false);
    let judged = planner.plan(&judge_proofs, &[("judged", &proofs)])?;
    let judge_hypotheses = verify::query(&steps.judge, &hypotheses, false);
    let beliefs = planner.plan(&judge_hypotheses, &[("judged", &hypotheses)])?;
    let decide_sql = decide::query(&steps.decide, true);
    let answers = planner.plan(&decide_sql, &[("hypotheses", &beliefs), ("proofs", &judged)])?;
    let correct =
        lowered::expression(&[KIND, "correct"], &settings.correct, &answers, engine, planner.place);
    let fact = lowered::text(&[KIND, "fact"], &settings.fact, &answers, engine, planner.place);
    if correct? != DataType::Boolean {
        let message = "`correct` is not true or false".to_owned();
        planner.place.mistake(&[KIND, "correct"], Code::SqlType, message, None);
        return None;
    }
    fact?;
    let lessons = lessons(settings);
    let told = planner.plan(&lessons, &[("answers", &answers), ("proofs", &judged)])?;
    components.set_settings(&lowered::normalized(settings, &["/correct", "/fact"]));
    set_model("model", &settings.model, engine, &mut components, place)?;
    let schema = lesson_schema(&told);
    let plan = TeachPlan {
        from,
        memory,
        settings: settings.clone(),
        hypotheses,
        prove: proofs_sql,
        judge_proofs,
        judge_hypotheses,
        decide: decide_sql,
        lessons,
        schema: Arc::clone(&schema),
    };
    Some(Outcome {
        schema,
        body: Body::Teach(Box::new(plan)),
        components,
        volatile: Vec::new(),
        rows_expected: None,
    })
}

/// The settings of the steps of a round, as those of stages of their own.
struct Steps {
    prove: Prove,
    verify: Verify,
    judge: Verify,
    decide: Decide,
}

impl Steps {
    fn of(settings: &Teach) -> Self {
        let verify = Verify {
            from: String::new(),
            model: settings.model.clone(),
            threshold: settings.threshold,
            probability: settings.probability,
            with_end: settings.with_end,
            trust_memory: settings.trust_memory,
            question: false,
            blocked: None,
            truncate: None,
            keep: Vec::new(),
        };
        Self {
            prove: Prove {
                from: String::new(),
                model: settings.model.clone(),
                context: Some(String::new()),
                forced: settings.forced,
                free: settings.free,
                question: settings.question,
                options: settings.options.clone(),
                keep: Vec::new(),
            },
            judge: Verify { keep: settings.keep.clone(), ..verify.clone() },
            verify,
            decide: Decide {
                from: String::new(),
                proofs: Some(String::new()),
                without_proof: settings.without_proof,
                keep: settings.keep.clone(),
            },
        }
    }
}

/// Plans the queries of a round, which are ours, and notes what they call.
struct Planner<'a, 'p> {
    engine: &'a Engine,
    components: &'a mut Components,
    place: &'a mut Place<'p>,
}

impl Planner<'_, '_> {
    /// The columns of `sql` over tables of the given columns, without why a row failed.
    fn plan(&mut self, sql: &str, tables: &[(&str, &SchemaRef)]) -> Option<SchemaRef> {
        let tables = tables.iter().filter_map(|(name, schema)| {
            let table = MemTable::try_new(Arc::clone(schema), vec![Vec::new()]).ok()?;
            Some(((*name).to_owned(), Arc::new(table) as Arc<dyn TableProvider>))
        });
        let planned = sqltext::parse(sql).map_err(|error| error.message).and_then(|query| {
            session::query(self.engine.planning(), &query, tables.collect())
                .map_err(|error| error.message)
        });
        let planned = match planned {
            Ok(planned) => planned,
            Err(message) => {
                self.place.mistake(&[KIND], Code::SqlPlan, message, None);
                return None;
            }
        };
        self.components.set_calls(&planned.calls);
        let fields = planned.schema.fields().iter().filter(|field| field.name() != ERROR);
        Some(Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>())))
    }
}

/// What becomes of the answers of a round: right or wrong, what the user says, which proofs there
/// were.
fn lessons(settings: &Teach) -> String {
    let Teach { correct, fact, .. } = settings;
    let (correct, fact) = (inside(correct), inside(fact));
    let taught = match settings.feedback {
        Feedback::Wrong => "NOT correct_ AND coalesce(trim(said_), '') <> ''",
        Feedback::All => "coalesce(trim(said_), '') <> ''",
    };
    let answer = after_comma(&decide::COLUMNS.map(str::to_owned), "told.");
    let keep = after_comma(&settings.keep, "told.");
    format!(
        "WITH told AS (
            SELECT *, coalesce({correct}, false) AS correct_, {fact} AS said_ FROM answers
        ),
        tried AS (
            SELECT question_id AS of_question, array_agg(named_struct(
                'proof_id', proof_id, 'hypothesis_id', hypothesis_id, 'strategy', strategy,
                'forced_fact_id', forced_fact_id, 'premises', premises, 'entailment', entailment,
                'direct', direct, 'score', score, 'accepted', accepted,
                'reject_reason', reject_reason) ORDER BY proof_id) AS tried_
            FROM proofs GROUP BY question_id
        )
        SELECT {answer}{keep}, correct_ AS correct,
            {taught} AS taught, CASE WHEN {taught} THEN said_ END AS fact, tried_ AS proofs
        FROM told LEFT JOIN tried ON of_question = told.question_id",
        answer = &answer[2..],
    )
}

/// The columns of lessons from those of [`lessons`].
fn lesson_schema(told: &SchemaRef) -> SchemaRef {
    let number = |name: &str| Arc::new(Field::new(name, DataType::Int64, false));
    let id = Arc::new(Field::new("fact_id", DataType::Utf8, true));
    let fields = BEFORE.map(number).into_iter().chain(told.fields().iter().cloned()).chain([id]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Teaches.
pub async fn compute(
    plan: &TeachPlan,
    hypotheses: Vec<RecordBatch>,
    facts: Vec<RecordBatch>,
    engine: &Engine,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let all = concat_batches(&plan.hypotheses, &hypotheses)?;
    let questions = questions(&all, plan.settings.order)?;
    let mut memory = Memory::default();
    for batch in &facts {
        let texts = arrow::compute::cast(
            batch.column_by_name("fact").unwrap_or(batch.column(0)),
            &DataType::Utf8,
        )?;
        texts.as_string::<i32>().iter().flatten().for_each(|fact| memory.learn(fact));
    }
    let mut part = sink.part(0, 1);
    let mut place = 0;
    for (round, some) in questions.chunks(plan.settings.round as usize).enumerate() {
        let before = memory.len();
        let told = answer(plan, &all, some, &mut memory, engine, sink).await?;
        let lessons = with_places(plan, &told, some, (place, round as i64 + 1, before))?;
        place += some.len() as i64;
        let column = |name: &str| lessons.column_by_name(name).cloned();
        if let (Some(taught), Some(fact)) = (column("taught"), column("fact")) {
            let fact = arrow::compute::cast(&fact, &DataType::Utf8)?;
            let fact = fact.as_string::<i32>();
            let taught = taught.as_boolean();
            for row in (0..lessons.num_rows()).filter(|&row| taught.value(row)) {
                memory.learn(fact.value(row));
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

/// The questions in the order in which they are asked.
fn questions(all: &RecordBatch, order: Option<u64>) -> Result<Vec<Question>, StageError> {
    let text = |name: &str| -> Result<ArrayRef, StageError> {
        let column = all.column_by_name(name).unwrap_or(all.column(0));
        Ok(arrow::compute::cast(column, &DataType::Utf8)?)
    };
    let (ids, texts) = (text("question_id")?, text("question")?);
    let (ids, texts) = (ids.as_string::<i32>(), texts.as_string::<i32>());
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut questions: Vec<Question> = Vec::new();
    for row in 0..all.num_rows() {
        let id = ids.value(row);
        let place = *places.entry(id).or_insert_with(|| {
            let text = texts.value(row).to_owned();
            questions.push(Question { id: id.to_owned(), text, rows: Vec::new() });
            questions.len() - 1
        });
        questions[place].rows.push(row as u32);
    }
    if let Some(seed) = order {
        // By digest: the same order however the table is stored.
        questions.sort_by_cached_key(|question| {
            Digest::of(format!("{seed}\n{}", question.id).as_bytes()).to_string()
        });
    }
    Ok(questions)
}

/// The answers to some questions with the memory as it is.
async fn answer(
    plan: &TeachPlan,
    all: &RecordBatch,
    some: &[Question],
    memory: &mut Memory,
    engine: &Engine,
    sink: &Sink,
) -> Result<RecordBatch, StageError> {
    let rows: UInt32Array = some.iter().flat_map(|question| question.rows.clone()).collect();
    let hypotheses = take_record_batch(all, &rows)?;
    let asked: Vec<(&str, &str)> =
        some.iter().map(|question| (question.id.as_str(), question.text.as_str())).collect();
    let recalled = memory.recall(&asked, plan.settings.recall as usize)?;
    let run = Run { engine, sink };
    let known = [("hypotheses", &hypotheses), ("recalled", &recalled)];
    let proofs = run.query(&plan.prove, &known).await?;
    let judged = run.query(&plan.judge_proofs, &[("judged", &proofs)]).await?;
    let beliefs = run.query(&plan.judge_hypotheses, &[("judged", &hypotheses)]).await?;
    let answers = [("hypotheses", &beliefs), ("proofs", &judged)];
    let answers = run.query(&plan.decide, &answers).await?;
    run.query(&plan.lessons, &[("answers", &answers), ("proofs", &judged)]).await
}

/// Runs the queries of a round.
struct Run<'a> {
    engine: &'a Engine,
    sink: &'a Sink,
}

impl Run<'_> {
    /// The rows of `sql` over some tables; fails if one of them failed.
    async fn query(
        &self,
        sql: &str,
        tables: &[(&str, &RecordBatch)],
    ) -> Result<RecordBatch, StageError> {
        let mut named = Named::new();
        for (name, batch) in tables {
            let table = MemTable::try_new(batch.schema(), vec![vec![(*batch).clone()]])?;
            named.insert((*name).to_owned(), Arc::new(table));
        }
        let ours = |message: String| StageError::Task(message);
        let query = sqltext::parse(sql).map_err(|error| ours(error.message))?;
        let planned = session::query(self.engine.planning(), &query, named)
            .map_err(|error| ours(error.message))?;
        let state = self.engine.watched(0, Some(1), self.sink.progress.counters());
        let physical = state.create_physical_plan(&planned.plan).await?;
        let schema = physical.schema();
        let batches = collect(physical, state.task_ctx()).await?;
        without_failures(&concat_batches(&schema, &batches)?)
    }
}

/// The rows without the column that says why one failed; an error if one did.
fn without_failures(batch: &RecordBatch) -> Result<RecordBatch, StageError> {
    let last = batch.num_columns() - 1;
    if batch.schema().field(last).name() != ERROR {
        return Ok(batch.clone());
    }
    let errors = batch.column(last);
    if errors.null_count() < errors.len() {
        let first = (0..errors.len()).find(|&row| errors.is_valid(row)).unwrap_or(0);
        let part = |name: &str| {
            let column = errors.as_struct_opt().and_then(|errors| errors.column_by_name(name));
            let texts = column.and_then(|column| column.as_string_opt::<i32>());
            texts.map(|texts| texts.value(first).to_owned()).unwrap_or_default()
        };
        let failed = errors.len() - errors.null_count();
        return Err(StageError::Data {
            message: format!(
                "{failed} of {} rows have no answer, the first ({}): {}",
                errors.len(),
                part("class"),
                part("message")
            ),
            help: "a lesson depends on all before it: mend the prompts or the model".to_owned(),
        });
    }
    Ok(batch.project(&(0..last).collect::<Vec<_>>())?)
}

/// The lessons of a round in the order of its questions, with what comes before and behind them.
fn with_places(
    plan: &TeachPlan,
    told: &RecordBatch,
    some: &[Question],
    (first, round, memory): (i64, i64, usize),
) -> Result<RecordBatch, StageError> {
    let ids = told.column_by_name("question_id").unwrap_or(told.column(0));
    let ids = arrow::compute::cast(ids, &DataType::Utf8)?;
    let rows: HashMap<&str, u32> = ids.as_string::<i32>().iter().flatten().zip(0..).collect();
    let order: UInt32Array =
        some.iter().map(|question| rows.get(question.id.as_str()).copied()).collect();
    let told = take_record_batch(told, &order)?;
    let count = told.num_rows();
    let fact = told.column_by_name("fact").map(|fact| arrow::compute::cast(fact, &DataType::Utf8));
    let fact = fact.transpose()?.unwrap_or_else(|| Arc::new(StringArray::new_null(count)));
    let fact_ids: StringArray =
        fact.as_string::<i32>().iter().map(|fact| fact.map(memory::fact_id)).collect();
    let numbers = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let mut columns = vec![
        numbers((first + 1..=first + count as i64).collect()),
        numbers(vec![round; count]),
        numbers(vec![memory as i64; count]),
    ];
    columns.extend(told.columns().iter().cloned());
    columns.push(Arc::new(fact_ids));
    debug_assert!(told.column_by_name("taught").is_some_and(|c| c.as_any().is::<BooleanArray>()));
    Ok(RecordBatch::try_new(Arc::clone(&plan.schema), columns)?)
}
