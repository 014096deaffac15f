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
    /// A setting of the kind, by its path: `from`, `from[1]`, `blocks[0].table.from`.
    Setting(String),
    /// A table that a check compares row counts with, by the check's position.
    Check(usize),
}

impl Role {
    /// What the edge is called in fingerprints; `None` if the table does not count there.
    pub fn label(&self) -> Option<String> {
        match self {
            Self::Table(name) | Self::Setting(name) => Some(format!("input.{name}")),
            Self::Check(_) => None,
        }
    }
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
