//! What a stage kind does with its settings, and what it is given for it. The kinds are in `kinds`.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::LogicalPlan;
use indexmap::IndexMap;
use proofmill_base::ids::StageName;

use crate::graph::{Role, Stage};
use crate::session::Engine;
use crate::sqltext::Query;
use crate::stages::diagnostics::Diagnostics;
use crate::stages::fingerprint::{Components, Counted};
use crate::stages::plan::{Export, PreparedStage, StagePlan};
use crate::stages::settings_file::SourceFile;
use crate::stages::stored_tables::FromStore;

/// The behaviour of a kind, as a trait of its settings.
pub trait Kind {
    /// What is true of all stages of the kind.
    fn traits(&self) -> Traits;
    /// Checks the settings against the columns of the inputs and plans the stage; `None` after a
    /// diagnostic that is an error. Runs nothing.
    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation>;
}

/// What is true of all stages of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Version of the behaviour: raised whenever the same settings and inputs would give another table.
    pub version: u32,
    /// Whether single rows can fail, so that `on_error` and `max_error_rate` mean something.
    pub rows_can_fail: bool,
    /// Whether it computes in parts, so that `partitions` means something.
    pub has_partitions: bool,
    /// Which settings count for the fingerprint.
    pub settings: Counted,
    /// What comes out if the same is computed again.
    pub repeats: Repeats,
}

impl Traits {
    /// Those of a kind that is a query over all its settings, and whose rows cannot fail by themselves.
    pub const fn of_query(version: u32) -> Self {
        Self {
            version,
            rows_can_fail: false,
            has_partitions: true,
            settings: Counted::All,
            repeats: Repeats::Set,
        }
    }
}

/// What comes out if a stage is computed again from the same inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repeats {
    /// The same rows in the same order, and the same files.
    Rows,
    /// The same rows, whose order may be another where they were computed in several pieces.
    Set,
    /// What was recorded; computed again, it may be anything.
    Recorded,
}

/// What a stage is prepared with.
pub struct Preparing<'a> {
    pub inputs: Inputs<'a>,
    /// The parsed query of a stage of the kind `sql`.
    pub query: Option<&'a Query>,
    pub engine: &'a Engine,
    pub from_store: &'a FromStore,
    /// What the fingerprint of the stage covers so far.
    pub components: Components,
    pub diagnostics: Diagnostics<'a>,
    /// Files that the stage is made of, beside the pipeline file and its templates.
    pub files: Vec<SourceFile>,
}

/// A stage and the stages before it, whose tables it reads.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub stage: &'a Stage,
    pub stages: &'a IndexMap<StageName, PreparedStage>,
}

impl<'a> Inputs<'a> {
    /// The stage that the setting at `path` names, such as `from` or `from[1]`; `None` if there is no such
    /// setting.
    pub fn name(&self, path: &str) -> Option<&'a StageName> {
        self.stage.input(&Role::Setting(path.to_owned()))
    }

    /// The table of that stage.
    pub fn table(&self, path: &str) -> Option<Arc<dyn TableProvider>> {
        self.table_of(self.name(path)?)
    }

    /// The table of a stage.
    pub fn table_of(&self, stage: &StageName) -> Option<Arc<dyn TableProvider>> {
        let table = &self.stages.get(stage)?.table;
        Some(Arc::clone(table) as Arc<dyn TableProvider>)
    }

    /// Rows expected of the largest input, where they are known.
    pub fn rows_expected(&self) -> Option<u64> {
        let inputs = self.stage.inputs.iter().filter(|input| !matches!(input.role, Role::Check(_)));
        inputs.filter_map(|input| self.stages.get(&input.stage)?.table.rows_expected()).max()
    }
}

/// What preparing a stage gives.
pub struct Preparation {
    pub schema: SchemaRef,
    pub plan: Arc<dyn StagePlan>,
    /// What it writes outside the store, if it does.
    pub export: Option<Arc<dyn Export>>,
    /// The query behind the plan, where people wrote it: it shows whether rows depend on an order.
    pub query: Option<LogicalPlan>,
    /// The query that asks a model, where one alone does.
    pub asking: Option<LogicalPlan>,
    /// Columns that no two rows share.
    pub unique: Option<&'static str>,
    /// Rows expected, where that is known.
    pub rows_expected: Option<u64>,
    /// Why it is computed in every run, if it is: what decides its table does not count for its fingerprint.
    pub unrepeatable: Option<&'static str>,
}

impl Preparation {
    /// A table of these columns and nothing else.
    pub fn new(schema: SchemaRef, plan: impl StagePlan + 'static) -> Self {
        Self::of(schema, Arc::new(plan))
    }

    /// A table of these columns, and files outside the store.
    pub fn exporting(schema: SchemaRef, plan: impl StagePlan + Export + 'static) -> Self {
        let plan = Arc::new(plan);
        let export = Some(Arc::clone(&plan) as Arc<dyn Export>);
        Self { export, ..Self::of(schema, plan) }
    }

    fn of(schema: SchemaRef, plan: Arc<dyn StagePlan>) -> Self {
        let (export, query, asking) = (None, None, None);
        let (unique, rows_expected, unrepeatable) = (None, None, None);
        Self { schema, plan, export, query, asking, unique, rows_expected, unrepeatable }
    }

    /// The same, with so many rows expected.
    pub fn expecting(mut self, rows: impl Into<Option<u64>>) -> Self {
        self.rows_expected = rows.into();
        self
    }
}
