//! A stage as the file declares it: exactly one kind, and what all kinds have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::Check;
use crate::kinds::blend::Blend;
use crate::kinds::compare::Compare;
use crate::kinds::decide::Decide;
use crate::kinds::embed::Embed;
use crate::kinds::fit::Fit;
use crate::kinds::generate::Generate;
use crate::kinds::hypothesize::Hypothesize;
use crate::kinds::index::Index;
use crate::kinds::measure::Measure;
use crate::kinds::memory::Memory;
use crate::kinds::prove::Prove;
use crate::kinds::read::Read;
use crate::kinds::report::Report;
use crate::kinds::retrieve::Retrieve;
use crate::kinds::score::Score;
use crate::kinds::search::Search;
use crate::kinds::sql::Sql;
use crate::kinds::teach::Teach;
use crate::kinds::verify::Verify;
use crate::kinds::write::Write;

/// A stage: one key that names its kind, and common keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["read"]}, {"required": ["memory"]}, {"required": ["sql"]},
    {"required": ["index"]},
    {"required": ["retrieve"]}, {"required": ["blend"]}, {"required": ["generate"]},
    {"required": ["score"]}, {"required": ["embed"]}, {"required": ["hypothesize"]},
    {"required": ["prove"]}, {"required": ["verify"]}, {"required": ["decide"]},
    {"required": ["teach"]}, {"required": ["search"]}, {"required": ["fit"]},
    {"required": ["measure"]}, {"required": ["compare"]}, {"required": ["write"]},
    {"required": ["report"]},
]))]
pub struct Stage {
    /// Reads files into a table.
    pub read: Option<Read>,
    /// Reads a memory that users teach.
    pub memory: Option<Memory>,
    /// One `SELECT` over the tables of other stages.
    pub sql: Option<Sql>,
    /// Builds an index over a memory of facts: of words (BM25) or of vectors (dense).
    pub index: Option<Index>,
    /// Ranks the entries of a memory for every row of a table.
    pub retrieve: Option<Retrieve>,
    /// Merges the tables of several `retrieve` stages by reciprocal rank fusion.
    pub blend: Option<Blend>,
    /// Writes a text for every row of a table, with a model.
    pub generate: Option<Generate>,
    /// Says how likely texts are for every row of a table, with a model.
    pub score: Option<Score>,
    /// Gives a vector for every row of a table, with a model.
    pub embed: Option<Embed>,
    /// Turns questions into hypotheses, one for each possible answer.
    pub hypothesize: Option<Hypothesize>,
    /// Writes one-step proofs of hypotheses, with a model.
    pub prove: Option<Prove>,
    /// Says what a model believes of proofs and hypotheses, and accepts or rejects proofs.
    pub verify: Option<Verify>,
    /// Answers questions by their best proofs or beliefs.
    pub decide: Option<Decide>,
    /// Searches for proofs of several steps, with a model.
    pub search: Option<Search>,
    /// Answers questions in turn while a simulated user corrects what is wrong.
    pub teach: Option<Teach>,
    /// Trains a small model on pairs of texts.
    pub fit: Option<Fit>,
    /// Averages values over the rows of a table, with intervals.
    pub measure: Option<Measure>,
    /// Compares systems item by item.
    pub compare: Option<Compare>,
    /// Exports a table to a file.
    pub write: Option<Write>,
    /// Shows tables, plots and proofs on one page, which a run prints at its end.
    pub report: Option<Report>,
    /// What the table is, for people.
    pub description: Option<String>,
    /// What must hold for the table.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What becomes of rows that cannot be read or computed.
    #[serde(default)]
    pub on_error: OnError,
    /// Share of failed rows above which the stage fails, from 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_error_rate: f64,
    /// Longest time the stage may take, such as `90s`, `15m` or `2h`.
    pub timeout: Option<String>,
    /// Parts the table is computed and stored in; as many as there are cores when absent.
    #[schemars(range(min = 1, max = 1024))]
    pub partitions: Option<u32>,
}

/// What becomes of a row that cannot be read or computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It becomes a row of `<stage>__errors`, and `max_error_rate` decides about the stage.
    #[default]
    Capture,
    /// The first one stops the stage.
    Fail,
}

/// The closed set of stage kinds.
#[derive(Clone, Debug, PartialEq)]
pub enum StageKind {
    /// A table from files.
    Read(Read),
    /// What users taught.
    Memory(Memory),
    /// A query.
    Sql(Sql),
    /// A searchable memory.
    Index(Index),
    /// Ranked entries of a memory.
    Retrieve(Retrieve),
    /// Rankings merged into one.
    Blend(Blend),
    /// Texts by a model.
    Generate(Generate),
    /// Log-probabilities by a model.
    Score(Score),
    /// Vectors by a model.
    Embed(Embed),
    /// Hypotheses of questions.
    Hypothesize(Box<Hypothesize>),
    /// Proofs by a model.
    Prove(Prove),
    /// Beliefs of a model.
    Verify(Verify),
    /// Answers by proofs.
    Decide(Decide),
    /// Trees of proofs.
    Search(Box<Search>),
    /// Lessons.
    Teach(Teach),
    /// A trained model.
    Fit(Box<Fit>),
    /// Numbers with intervals.
    Measure(Measure),
    /// Systems compared item by item.
    Compare(Compare),
    /// An exported file.
    Write(Write),
    /// A page.
    Report(Box<Report>),
    /// One stage of a matrix over all its values; made by the program, not written in a file.
    Gather(Gather),
}

/// The union of one stage over all instances of a matrix, with the matrix values as columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gather {
    /// Names of the matrix parameters: the first columns.
    pub columns: Vec<String>,
    /// Each instance: the matrix values, and its stage.
    pub instances: Vec<(Vec<String>, String)>,
}

impl StageKind {
    /// The keys of the kinds that a file can declare.
    pub const NAMES: [&str; 20] = [
        "read",
        "memory",
        "sql",
        "index",
        "retrieve",
        "blend",
        "generate",
        "score",
        "embed",
        "hypothesize",
        "prove",
        "verify",
        "decide",
        "search",
        "teach",
        "fit",
        "measure",
        "compare",
        "write",
        "report",
    ];

    /// The kind's key in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Memory(_) => "memory",
            Self::Sql(_) => "sql",
            Self::Index(_) => "index",
            Self::Retrieve(_) => "retrieve",
            Self::Blend(_) => "blend",
            Self::Generate(_) => "generate",
            Self::Score(_) => "score",
            Self::Embed(_) => "embed",
            Self::Hypothesize(_) => "hypothesize",
            Self::Prove(_) => "prove",
            Self::Verify(_) => "verify",
            Self::Decide(_) => "decide",
            Self::Search(_) => "search",
            Self::Teach(_) => "teach",
            Self::Fit(_) => "fit",
            Self::Measure(_) => "measure",
            Self::Compare(_) => "compare",
            Self::Write(_) => "write",
            Self::Report(_) => "report",
            Self::Gather(_) => "gather",
        }
    }

    /// The kind that a declared stage has; `None` if not exactly one key is there.
    pub fn of(stage: &Stage) -> Option<Self> {
        let kinds = [
            stage.read.clone().map(Self::Read),
            stage.memory.clone().map(Self::Memory),
            stage.sql.clone().map(Self::Sql),
            stage.index.clone().map(Self::Index),
            stage.retrieve.clone().map(Self::Retrieve),
            stage.blend.clone().map(Self::Blend),
            stage.generate.clone().map(Self::Generate),
            stage.score.clone().map(Self::Score),
            stage.embed.clone().map(Self::Embed),
            stage.hypothesize.clone().map(|it| Self::Hypothesize(Box::new(it))),
            stage.prove.clone().map(Self::Prove),
            stage.verify.clone().map(Self::Verify),
            stage.decide.clone().map(Self::Decide),
            stage.search.clone().map(|it| Self::Search(Box::new(it))),
            stage.teach.clone().map(Self::Teach),
            stage.fit.clone().map(|it| Self::Fit(Box::new(it))),
            stage.measure.clone().map(Self::Measure),
            stage.compare.clone().map(Self::Compare),
            stage.write.clone().map(Self::Write),
            stage.report.clone().map(|it| Self::Report(Box::new(it))),
        ];
        let mut kinds = kinds.into_iter().flatten();
        kinds.next().filter(|_| kinds.next().is_none())
    }
}
