//! What a graph is made of: stages, and edges to the stages that they need.

use std::sync::Arc;

use indexmap::IndexMap;
use proofmill_base::ids::StageName;
use proofmill_pipeline::pipeline::{Pipeline, StageSpec};

use crate::sqltext::Query;

/// What an edge is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A table that SQL names, as written there.
    Table(String),
    /// The setting `from`.
    From,
    /// The setting `memory`.
    Memory,
    /// The setting `dev`.
    Dev,
    /// The setting `context`.
    Context,
    /// The setting `proofs`.
    Proofs,
    /// The setting `blocked`.
    Blocked,
    /// The setting `confirmed`.
    Confirmed,
    /// The setting `baseline`.
    Baseline,
    /// The setting `candidate`.
    Candidate,
    /// A ranking that is blended with others, by its position.
    Ranking(usize),
    /// An instance of a matrix, by its position.
    Instance(usize),
    /// The table of a block of a page, by the block's position.
    Block(usize),
    /// A table that a check compares row counts with, by the check's position.
    Check(usize),
}

/// An edge: this stage needs that one.
#[derive(Clone, Debug)]
pub struct Input {
    pub role: Role,
    pub stage: StageName,
}

/// A stage with its edges.
#[derive(Clone, Debug)]
pub struct Stage {
    pub spec: StageSpec,
    pub inputs: Vec<Input>,
    /// For `sql`: the query, until its stage is prepared.
    pub query: Option<Box<Query>>,
}

impl Stage {
    /// The stage that is needed for `role`.
    pub fn input(&self, role: &Role) -> Option<&StageName> {
        self.inputs.iter().find(|input| input.role == *role).map(|input| &input.stage)
    }
}

/// All stages whose names resolve, in an order in which they can run.
#[derive(Debug)]
pub struct Graph {
    /// The pipeline they come from.
    pub pipeline: Pipeline,
    pub stages: IndexMap<StageName, Arc<Stage>>,
}
