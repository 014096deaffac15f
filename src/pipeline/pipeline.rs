//! The pipeline after parsing: typed stages under their full names, each with its place.

use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::checks::Check;
use crate::kinds::{OnError, StageKind};
use crate::models::Model;
use crate::node::Node;
use crate::source::{Sources, Span};
use crate::testcase::TestCase;
use proofmill_base::ids::StageName;

/// A pipeline whose settings are typed and whose templates, groups and matrices are inlined.
/// References between stages are not resolved yet.
#[derive(Debug)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// What it evaluates.
    pub description: Option<String>,
    /// Parameters with the values of this run.
    pub params: IndexMap<String, Json>,
    /// Language models by name, each with its node.
    pub models: IndexMap<String, (Model, Node)>,
    /// Warnings that are errors.
    pub strict: Vec<Strict>,
    /// Stages by full name, in the order of the file.
    pub stages: IndexMap<StageName, StageSpec>,
    /// Names that stand in the file but whose settings are wrong: known, and not complained about
    /// a second time.
    pub broken: Vec<StageName>,
    /// Groups that are repeated, over a matrix or in turns.
    pub matrices: Vec<Matrix>,
    /// Its tests, each with its node.
    pub tests: Vec<(TestCase, Node)>,
    /// The texts that it was read from; the pipeline file is the first.
    pub sources: Arc<Sources>,
}

/// A warning that a pipeline makes an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strict {
    /// A result that depends on an unspecified order, regardless of the number of rows.
    Order,
}

/// One stage of a pipeline.
#[derive(Clone, Debug)]
pub struct StageSpec {
    /// Full name.
    pub name: StageName,
    /// Groups around it, outermost first; where names in its settings are looked up.
    pub scope: Vec<String>,
    /// What it does.
    pub kind: StageKind,
    /// What all kinds have in common.
    pub common: Common,
    /// Its settings with places.
    pub node: Node,
    /// YAML path of its settings.
    pub path: String,
    /// Place of its name.
    pub key: Span,
}

/// Settings that all kinds have in common.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// What the table is, for people.
    pub description: Option<String>,
    /// What must hold for the table.
    pub checks: Vec<Check>,
    /// What happens to rows that cannot be read or computed.
    pub on_error: OnError,
    /// Share of failed rows above which the stage fails.
    pub max_error_rate: f64,
    /// Longest time the stage may take.
    pub timeout: Option<Duration>,
    /// Parts the table is computed and stored in.
    pub partitions: Option<u32>,
}

/// A group that is repeated over a matrix, or in turns.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Full name of the group, without the values.
    pub group: String,
    /// Names of the matrix parameters; `turn` of one that is repeated in turns.
    pub columns: Vec<String>,
    /// Whether the values are whole numbers.
    pub numbers: bool,
    /// Each instance: its values and the full name of its group.
    pub instances: Vec<(Vec<String>, String)>,
}

/// Where the full names of a group's stages are made: `stage` at the top, `group.stage` inside.
pub fn full_name(scope: &[String], stage: &str) -> String {
    scope.last().map_or_else(|| stage.to_owned(), |group| format!("{group}.{stage}"))
}

/// The full name of a group inside others.
pub fn full_group(scope: &[String], group: &str) -> String {
    scope.last().map_or_else(|| group.to_owned(), |outer| format!("{outer}_{group}"))
}
