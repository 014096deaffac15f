//! The closed set of stage kinds: the settings of each in a file of its own, and the one list of them.

pub mod command;
pub mod compare;
pub mod embed;
pub mod fit;
pub mod generate;
pub mod hypothesize;
pub mod index;
pub mod measure;
pub mod memory;
pub mod prompt;
pub mod proof_search;
pub mod prove;
pub mod python;
pub mod rank_fusion;
pub mod read;
pub mod report;
pub mod retrieve;
pub mod score;
pub mod select_answer;
pub mod sql;
pub mod statistics;
pub mod teach;
pub mod verify;
pub mod write;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::Check;
use crate::role::KindRole;
use crate::settings::{Expression, Reference, SettingValues, StageRef, read, references};

/// The names of the kinds that the program makes itself.
const MATRIX_UNION: &str = "matrix_union";
const CARRY: &str = "carry";

/// From the list of kinds: what a stage is in a file, which kind it has, what the kinds are called, and what their tables
/// are to others. A line is `key: Settings => Role`: the settings lie in the module `key`.
macro_rules! kinds {
    ($($(#[$doc:meta])* $key:ident: $Kind:ident => $Role:ident,)*) => {
        /// A stage: one key that names its kind, and common keys.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(extend("oneOf" = [$({"required": [stringify!($key)]}),*]))]
        pub struct Stage {
            $($(#[$doc])* pub $key: Option<$key::$Kind>,)*
            /// What the table is, for people.
            pub description: Option<String>,
            /// What must hold for the table.
            #[serde(default)]
            pub checks: Vec<Check>,
            /// What happens to rows that cannot be read or computed.
            #[serde(default)]
            pub on_error: OnError,
            /// Share of failed rows above which the stage fails, from 0 to 1.
            #[serde(default)]
            #[schemars(range(min = 0.0, max = 1.0))]
            pub max_error_rate: f64,
            /// Time limit of the stage, such as `90s`, `15m` or `2h`.
            pub timeout: Option<String>,
            /// Partitions that the table is computed and stored in; as many as there are cores when absent.
            #[schemars(range(min = 1, max = 1024))]
            pub partitions: Option<u32>,
        }

        /// The kind of a stage, with its settings.
        #[derive(Clone, Debug, PartialEq)]
        pub enum StageKind {
            $($(#[$doc])* $Kind(Box<$key::$Kind>),)*
            /// One stage of a matrix over all its values; made by the program, not written in a file.
            MatrixUnion(Box<MatrixUnion>),
            /// A table that a repeated group reads in one of its turns; made by the program, not written in a file.
            Carry(Box<Carry>),
        }

        impl StageKind {
            /// The keys of the kinds that a file can declare.
            pub const NAMES: &[&str] = &[$(stringify!($key)),*];

            /// The kind's key in the file.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$Kind(_) => stringify!($key),)*
                    Self::MatrixUnion(_) => MATRIX_UNION,
                    Self::Carry(_) => CARRY,
                }
            }

            /// The memory that it reads.
            pub fn memory(&self) -> Option<&str> {
                match self {
                    Self::Memory(memory) => Some(&memory.name),
                    _ => None,
                }
            }

            /// What its table is to others.
            pub fn role(&self) -> KindRole {
                match self {
                    $(Self::$Kind(_) => KindRole::$Role,)*
                    Self::MatrixUnion(_) => KindRole::Union,
                    Self::Carry(_) => KindRole::Carried,
                }
            }

            /// Its settings, without the stages that they name; expressions as `canonical` writes them.
            pub fn values(&self, canonical: &dyn Fn(&str) -> String) -> SettingValues {
                match self {
                    $(Self::$Kind(settings) => read(settings.as_ref(), canonical),)*
                    Self::MatrixUnion(settings) => read(settings.as_ref(), canonical),
                    Self::Carry(settings) => read(settings.as_ref(), canonical),
                }
            }

            /// The stages that the settings name.
            pub fn references(&self) -> Vec<Reference> {
                match self {
                    $(Self::$Kind(settings) => references(settings.as_ref()),)*
                    Self::MatrixUnion(settings) => references(settings.as_ref()),
                    Self::Carry(settings) => references(settings.as_ref()),
                }
            }

            /// The kind that a declared stage has; `None` if not exactly one key is there.
            pub fn of(stage: &Stage) -> Option<Self> {
                let kinds = [$(stage.$key.clone().map(|it| Self::$Kind(Box::new(it))),)*];
                let mut kinds = kinds.into_iter().flatten();
                kinds.next().filter(|_| kinds.next().is_none())
            }
        }

        impl KindRole {
            /// That of the kind with this name; `None` if this program has no such kind.
            pub fn of(kind: &str) -> Option<Self> {
                match kind {
                    $(stringify!($key) => Some(Self::$Role),)*
                    MATRIX_UNION => Some(Self::Union),
                    CARRY => Some(Self::Carried),
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// Reads files into a table.
    read: Read => Source,
    /// Reads a memory that users teach.
    memory: Memory => Memory,
    /// One `SELECT` over the tables of other stages.
    sql: Sql => Rows,
    /// Builds an index over a memory of facts: of words (BM25) or of vectors (dense).
    index: Index => Ranking,
    /// Ranks the entries of a memory for every row of a table.
    retrieve: Retrieve => Retrieval,
    /// Merges the tables of several `retrieve` stages by reciprocal rank fusion.
    rank_fusion: RankFusion => Ranking,
    /// Fills in a template for every row of a table.
    prompt: Prompt => Rows,
    /// Writes a text for every row of a table, with a model.
    generate: Generate => Rows,
    /// Scores texts for every row of a table, with a model.
    score: Score => Rows,
    /// Gives a vector for every row of a table, with a model.
    embed: Embed => Rows,
    /// Turns questions into hypotheses, one for each possible answer.
    hypothesize: Hypothesize => Hypotheses,
    /// Writes one-step proofs of hypotheses, with a model.
    prove: Prove => Proofs,
    /// Judges proofs and hypotheses with a model, and accepts or rejects proofs.
    verify: Verify => Judgements,
    /// Answers questions by their best proofs or beliefs.
    select_answer: SelectAnswer => Answers,
    /// Searches for proofs of several steps, with a model.
    proof_search: ProofSearch => SearchedProofs,
    /// Answers questions in turn while a simulated user corrects what is wrong.
    teach: Teach => Lessons,
    /// Trains a small model on pairs of texts.
    fit: Fit => Model,
    /// Runs a program that reads tables and writes one.
    command: Command => Rows,
    /// Calls a Python function with the rows of a table.
    python: Python => Rows,
    /// Averages values over the rows of a table, with intervals.
    measure: Measure => Metrics,
    /// Compares systems item by item.
    compare: Compare => Comparison,
    /// Exports a table to a file.
    write: Write => Export,
    /// Shows tables, plots and proofs on one page, which a run prints at its end.
    report: Report => Page,
}

/// What happens to a row that cannot be read or computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It becomes a row of `<stage>__errors`, and `max_error_rate` decides whether the stage fails.
    #[default]
    Capture,
    /// The first one stops the stage.
    Fail,
}

/// The union of one stage over all instances of a matrix, or all turns of a repeated group, with the matrix
/// values, or the number of the turn, as columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixUnion {
    /// Names of the matrix parameters: the first columns.
    pub columns: Vec<String>,
    /// Whether the labels are whole numbers: those of turns are, matrix values are texts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers: bool,
    pub instances: Vec<Instance>,
}

/// One stage of a matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// The matrix values, in the order of the columns.
    pub labels: Vec<String>,
    pub stage: StageRef,
}

/// What a repeated group reads in one turn, by the name of the table. It has one entry: the name is there so that
/// settings have the same path here as in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Carry(pub IndexMap<String, CarriedRows>);

/// Where the rows of a carried table come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CarriedRows {
    /// In the first turn.
    First { from: StageRef },
    /// In a later turn: from the turn before, whose table the second one is.
    Later { next: StageRef, before: StageRef, until: Option<Expression> },
}
