//! The query engine: one set of functions and models for all stages of a run.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::context::SessionConfig;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::ExprPlanner;
use object_store::ObjectStore;
use proofmill_udfs::model::split::SplitModelCalls;
use proofmill_udfs::model::{Counters, Watch};
use proofmill_udfs::scalar::JsonOperators;

use crate::models::{ModelSource, Registry};
use crate::session::bounded::bounded;
use crate::session::large_limits::LargeLimits;
use crate::session::ordered::InOrder;
use crate::session::replanned::Replanned;
use crate::session::resources::{Limits, Resources};
use crate::session::rules::{self, Planning};
use proofmill_base::error::Result;
use proofmill_pipeline::models::Model;

/// Rows of a batch between operators.
pub const BATCH_ROWS: usize = 8192;
/// Inputs with fewer rows run in one partition: cheaper, and the order of rows is kept.
pub const SINGLE_PARTITION_ROWS_MAX: u64 = 100_000;
/// Rows of this size are sorted all at once where their order must not depend on their batches:
/// rows that are equal for the sort then have an order that the rows alone decide.
const SORTED_AT_ONCE_BYTES_MAX: usize = 1 << 30;
/// The part of the memory that one call of a function may fill.
const CALL_SHARE: u64 = 4;

/// Plans and runs queries.
#[derive(Debug)]
pub struct Engine {
    resources: Resources,
    runtime: Arc<RuntimeEnv>,
    source: ModelSource,
    /// The models that functions may name.
    models: Arc<Registry>,
    /// One partition: small inputs, and everything that is only planned.
    single: SessionState,
    /// As many partitions as cores.
    parallel: SessionState,
}

impl Engine {
    /// An engine over one store, without models.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        resources: Resources,
        source: ModelSource,
    ) -> Result<Self> {
        Ok(Self::over(resources.over(store)?, resources, source, []))
    }

    /// The same engine, with models that functions may name.
    pub fn with_models(&self, models: impl IntoIterator<Item = (String, Model)>) -> Self {
        let (runtime, resources) = (Arc::clone(&self.runtime), self.resources.clone());
        Self::over(runtime, resources, self.source.clone(), models)
    }

    fn over(
        runtime: Arc<RuntimeEnv>,
        resources: Resources,
        source: ModelSource,
        models: impl IntoIterator<Item = (String, Model)>,
    ) -> Self {
        let models = Arc::new(source.registry(models));
        let limits = resources.limits();
        let functions = Functions::all(&models, limits);
        let single = state(&runtime, &functions, 1, Planning::Usual);
        let parallel = state(&runtime, &functions, limits.cores, Planning::Usual);
        Self { resources, runtime, source, models, single, parallel }
    }

    /// The models that functions may name.
    pub fn models(&self) -> &Registry {
        &self.models
    }

    /// A folder that goes with the process, for files that no other process needs; `None` where
    /// none could be made.
    pub fn scratch(&self) -> Option<&std::path::Path> {
        self.resources.scratch()
    }

    /// What the engine may use.
    pub fn limits(&self) -> Limits {
        self.resources.limits()
    }

    /// The state that plans SQL; it runs nothing.
    pub fn planning(&self) -> &SessionState {
        &self.single
    }

    /// The state for a second plan of a query, by as few rules as possible and in one partition.
    pub fn plain(&self) -> SessionState {
        let functions = Functions::all(&self.models, self.limits());
        let mut state = state(&self.runtime, &functions, 1, Planning::Plain);
        state.mark_start_execution();
        state
    }

    /// The state that runs a query over `rows` rows of input in `partitions` parts, if that is
    /// requested.
    pub fn running(&self, rows: u64, partitions: Option<u32>) -> SessionState {
        let mut state = match partitions {
            Some(1) => self.single.clone(),
            Some(partitions) => state(
                &self.runtime,
                &Functions::all(&self.models, self.limits()),
                partitions as usize,
                Planning::Usual,
            ),
            None if rows < SINGLE_PARTITION_ROWS_MAX => self.single.clone(),
            None => self.parallel.clone(),
        };
        // `now()` and its like have no value before.
        state.mark_start_execution();
        state
    }

    /// As [`Self::running`]; what the query asks models is counted.
    pub fn watched(
        &self,
        rows: u64,
        partitions: Option<u32>,
        counters: &Arc<Counters>,
    ) -> SessionState {
        let mut state = self.running(rows, partitions);
        let watch = Watch(Arc::clone(counters));
        state.config_mut().options_mut().extensions.insert(watch);
        state
    }
}

/// All functions that SQL may call: DataFusion's and ours.
struct Functions {
    scalar: Vec<Arc<datafusion::logical_expr::ScalarUDF>>,
    aggregate: Vec<Arc<datafusion::logical_expr::AggregateUDF>>,
}

impl Functions {
    fn all(models: &Registry, limits: Limits) -> Self {
        let bytes_max = limits.memory_bytes as u64 / CALL_SHARE;
        let scalar = SessionStateDefaults::default_scalar_functions().into_iter();
        let mut scalar: Vec<_> = scalar.map(|function| bounded(function, bytes_max)).collect();
        scalar.extend(proofmill_udfs::scalar_functions());
        scalar.extend(proofmill_udfs::model::model_functions(models.inference()));
        let mut aggregate = SessionStateDefaults::default_aggregate_functions();
        let mut exact = vec![proofmill_udfs::exact::sum()];
        exact.extend(proofmill_udfs::exact::extremes());
        aggregate.retain(|function| exact.iter().all(|ours| ours.name() != function.name()));
        aggregate.extend(exact);
        aggregate.extend(proofmill_udfs::aggregate_functions());
        Self { scalar, aggregate }
    }
}

fn state(
    runtime: &Arc<RuntimeEnv>,
    functions: &Functions,
    partitions: usize,
    planning: Planning,
) -> SessionState {
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.execution.parquet.schema_force_view_types = false;
    // It moves a field of a model's answer, and with it the call, below filters and joins: requests
    // would be sent for rows that are dropped later.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // The check takes a column that a rule has found never to be NULL for another column.
    options.execution.skip_physical_aggregate_schema_check = true;
    let mut physical = rules::physical_rules(planning);
    if partitions == 1 {
        keep_order(options);
        physical.insert(0, Arc::new(InOrder));
    }
    physical.push(Arc::new(LargeLimits));
    let table_functions = SessionStateDefaults::default_table_functions();
    SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(Arc::clone(runtime))
        .with_expr_planners(expr_planners())
        .with_scalar_functions(functions.scalar.clone())
        .with_aggregate_functions(functions.aggregate.clone())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_analyzer_rules(rules::analyzer_rules())
        .with_optimizer_rules(rules::optimizer_rules(planning))
        .with_optimizer_rule(Arc::new(SplitModelCalls))
        .with_physical_optimizer_rules(physical)
        .with_query_planner(Arc::new(Replanned))
        .with_table_functions(
            table_functions
                .into_iter()
                .map(|function| (function.name().to_owned(), function))
                .collect::<HashMap<_, _>>(),
        )
        .build()
}

/// DataFusion's ways to plan operators, and ours for those of JSON.
fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    let mut planners = SessionStateDefaults::default_expr_planners();
    planners.push(Arc::new(JsonOperators));
    planners
}

/// What could make the order of rows, or the batches they come in, depend on anything but the rows:
/// how a table is stored, how much memory its arrays take, how far another operator has come.
fn keep_order(options: &mut ConfigOptions) {
    let optimizer = &mut options.optimizer;
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let execution = &mut options.execution;
    execution.parquet.pruning = false;
    execution.parquet.enable_page_index = false;
    execution.parquet.bloom_filter_on_read = false;
    execution.sort_in_place_threshold_bytes = SORTED_AT_ONCE_BYTES_MAX;
}
