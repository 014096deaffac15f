//! A stage that can run: its columns are known, its settings checked, its inputs bound to tables.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use indexmap::IndexMap;

use crate::graph::{Graph, Stage};
use proofmill_base::ids::StageName;
use crate::session::StageTable;
use crate::stages::compare::ComparePlan;
use crate::stages::components::Components;
use crate::stages::dense::DensePlan;
use crate::stages::fit::FitPlan;
use crate::stages::index::IndexPlan;
use crate::stages::measure::MeasurePlan;
use crate::stages::memory::MemoryPlan;
use crate::stages::nearest::NearestPlan;
use crate::stages::report::ReportPlan;
use crate::stages::retrieve::MemorySlot;
use crate::stages::search::SearchPlan;
use crate::stages::teach::TeachPlan;
use crate::stages::write::WritePlan;

/// How a stage's table is computed.
#[derive(Debug)]
pub enum Body {
    Read(Arc<proofmill_files::Source>),
    /// From what users taught.
    Memory(MemoryPlan),
    Query(LogicalPlan),
    /// By a query that asks a model; its last column says why a row failed.
    Asked(LogicalPlan),
    /// By a query that asks an index.
    Retrieve(LogicalPlan, Arc<MemorySlot>),
    /// By comparing vectors with those of an index.
    Nearest(NearestPlan),
    /// By building an index of words.
    Index(IndexPlan),
    /// By building an index of vectors.
    Dense(DensePlan),
    /// By proving hypotheses, then the premises of their proofs, and so on.
    Search(Box<SearchPlan>),
    /// By answering questions in turn, with a growing memory.
    Teach(Box<TeachPlan>),
    Fit(Box<FitPlan>),
    Measure(MeasurePlan),
    Compare(ComparePlan),
    Write(WritePlan),
    Report(Box<ReportPlan>),
}

/// A stage that can run.
#[derive(Debug)]
pub struct PreparedStage {
    pub stage: Arc<Stage>,
    /// Its table, which others read; filled once it is stored.
    pub table: Arc<StageTable>,
    pub body: Body,
    /// What its fingerprint covers, but for the fingerprints of its inputs.
    pub components: Components,
    /// Functions whose value differs between runs: the stage cannot be cached.
    pub volatile: Vec<String>,
    /// Whether a check calls such functions: its checks are then run in every run.
    pub volatile_checks: bool,
    /// Rows expected before it runs, where that is known.
    pub rows_expected: Option<u64>,
}

/// A pipeline that can run.
#[derive(Debug)]
pub struct Prepared {
    /// Where it comes from.
    pub graph: Graph,
    /// Its stages, in an order in which they can run.
    pub stages: IndexMap<StageName, PreparedStage>,
}
