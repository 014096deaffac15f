//! The search itself: level by level, every sentence that is open gets its one-step proofs, and the
//! premises of the best one are the next level.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

use crate::session::Engine;
use crate::stages::error::StageError;
use crate::stages::kinds::proof_search::state::{Search, request_schema};
use crate::stages::kinds::proof_search::table;
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::queries::prepared_query::{Planner, PreparedQuery};
use crate::stages::sink::{Computed, Sink};
use proofmill_base::ids::StageName;

/// What to do when a sentence has no answer.
const HELP: &str =
    "a tree depends on all its proofs: change the prompts or the model, or set `truncate`";

/// What a level asks, query by query.
#[derive(Debug)]
pub struct SearchPlan {
    /// The stage of the hypotheses.
    pub from: StageName,
    /// The stage of what was recalled, and its columns.
    pub context: Option<(StageName, SchemaRef)>,
    /// The stage of the blocked entailments, and its columns.
    pub blocked: Option<(StageName, SchemaRef)>,
    /// The stage of the facts that premises must not contradict, and its columns.
    pub memory: Option<(StageName, SchemaRef)>,
    /// Whether proofs of a sentence depend on the question.
    pub by_question: bool,
    pub hypotheses: SchemaRef,
    pub depth: u32,
    pub keep: Vec<String>,
    pub prove_hypotheses: String,
    pub prove_premises: String,
    pub judge: String,
    pub schema: SchemaRef,
}

#[async_trait]
impl StagePlan for SearchPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let tables = Tables {
            hypotheses: execution.rows(Some(&self.from)).await?,
            context: execution.rows(self.context.as_ref().map(|(name, _)| name)).await?,
            blocked: execution.rows(self.blocked.as_ref().map(|(name, _)| name)).await?,
            memory: execution.rows(self.memory.as_ref().map(|(name, _)| name)).await?,
        };
        compute(self, tables, execution.engine, execution.sink).await
    }
}

/// The rows of the tables that a search needs.
struct Tables {
    hypotheses: Vec<RecordBatch>,
    /// What was recalled for their questions.
    context: Vec<RecordBatch>,
    blocked: Vec<RecordBatch>,
    memory: Vec<RecordBatch>,
}

/// Searches.
async fn compute(
    plan: &SearchPlan,
    tables: Tables,
    engine: &Engine,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let hypotheses = concat_batches(&plan.hypotheses, &tables.hypotheses)?;
    let mut queries = Queries::new(plan, &tables, &Planner::new(engine, sink, HELP)).await?;
    let mut search = Search::new(&hypotheses, plan.by_question)?;
    let mut open = search.roots();
    for depth in 0..plan.depth {
        if open.is_empty() {
            break;
        }
        let requests = search.ask(&open, depth)?;
        search.judged.note(&queries.level(depth, &requests).await?)?;
        open = search.grow(&open);
    }
    sink.table(table::of(&plan.schema, &plan.keep, &hypotheses, &search)?).await
}

/// The two queries of a level, and the tables that are the same for all.
struct Queries {
    /// With question and answer, if that is wanted.
    prove_hypotheses: PreparedQuery,
    prove_premises: PreparedQuery,
    judge: PreparedQuery,
    context: Option<RecordBatch>,
    blocked: Option<RecordBatch>,
    memory: Option<RecordBatch>,
}

impl Queries {
    async fn new(
        plan: &SearchPlan,
        tables: &Tables,
        planner: &Planner<'_>,
    ) -> Result<Self, StageError> {
        let SearchPlan { context, blocked, memory, .. } = plan;
        let requests = request_schema();
        let mut proving = vec![("hypotheses", &requests)];
        proving.extend(context.iter().map(|(_, schema)| ("recalled", schema)));
        let prove_hypotheses = planner.plan(&plan.prove_hypotheses, &proving).await?;
        let prove_premises = planner.plan(&plan.prove_premises, &proving).await?;
        let mut judging = vec![("judged", prove_hypotheses.schema())];
        judging.extend(blocked.iter().map(|(_, schema)| ("blocked", schema)));
        judging.extend(memory.iter().map(|(_, schema)| ("memory", schema)));
        let judge = planner.plan(&plan.judge, &judging).await?;
        let whole = |schema: &Option<_>, rows: &[RecordBatch]| match schema {
            Some((_, schema)) => concat_batches(schema, rows).map(Some),
            None => Ok(None),
        };
        let context = whole(context, &tables.context)?;
        let blocked = whole(blocked, &tables.blocked)?;
        let memory = whole(memory, &tables.memory)?;
        Ok(Self { prove_hypotheses, prove_premises, judge, context, blocked, memory })
    }

    /// The judged proofs for the requests of a depth.
    async fn level(
        &mut self,
        depth: u32,
        requests: &RecordBatch,
    ) -> Result<RecordBatch, StageError> {
        let prove = if depth == 0 { &mut self.prove_hypotheses } else { &mut self.prove_premises };
        let mut tables = vec![requests];
        tables.extend(&self.context);
        let proofs = prove.run(&tables).await?;
        let mut tables = vec![&proofs];
        tables.extend(&self.blocked);
        tables.extend(&self.memory);
        self.judge.run(&tables).await
    }
}
