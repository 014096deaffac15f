//! Arguments and options. A flag says how to run; a key of the file says what.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tracing_subscriber::filter::Targets;

use crate::cli::audit::args::AuditArgs;
use crate::cli::gate::args::{ChannelArgs, GateArgs};
use crate::cli::log::{LogFormat, parse_filter};
use crate::cli::schedule::args::ScheduleArgs;
use crate::cli::teach::args::Teach;
use crate::cli::values::{parse_bytes, parse_param};
use crate::cli::work::args::{WorkArgs, WorkersArgs};
use crate::host::budget::Budget;
use proofmill_base::ids::PipelineName;
use proofmill_catalog::reference::LATEST;
use proofmill_files::traits;
use proofmill_pipeline::kinds::read::Format;
use proofmill_pipeline::models::Ask;

/// Tables all the way from the question to the metric, and a proof for every number.
#[derive(Debug, Parser)]
#[command(name = "proofmill", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Options of all commands.
    #[command(flatten)]
    pub global: Global,
}

/// The store when none is named.
pub const STORE_DEFAULT: &str = "proofmill-store";

/// Options of all commands.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Where tables and runs are stored: a folder, or `memory://`, `s3://bucket/prefix`,
    /// `gs://bucket/prefix`, `az://container/prefix`
    /// [default: that of the profile, else the folder `proofmill-store`]
    #[arg(long, global = true, env = "PROOFMILL_STORE", hide_env_values = true)]
    pub store: Option<String>,
    /// The profile of the project file `proofmill.yaml` that sets the store and parameters [default: the one
    /// that the file names]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "PROOFMILL_PROFILE",
        hide_env_values = true
    )]
    pub profile: Option<String>,
    /// Memory limit of all queries together, such as `8GiB`; beyond it they spill to disk [default: 70 %
    /// of free memory]
    #[arg(long, global = true, value_parser = parse_bytes)]
    pub memory: Option<usize>,
    /// Number of stages computed in parallel [default: the number of cores]
    #[arg(long, short, global = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not page long output through `$PAGER` or `less`
    #[arg(long, global = true)]
    pub no_pager: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto)]
    pub color: Colour,
    /// Log to standard error instead of showing progress: `error`, `warn`, `info`, `debug` or
    /// `trace`; or levels per module, such as `warn,proofmill_remote=debug`
    #[arg(long, global = true, value_name = "LEVEL|FILTER", value_parser = parse_filter)]
    pub log: Option<Targets>,
    /// Format of log entries, one per line
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On terminals, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a pipeline; stages that are already in the store are not recomputed
    Run(Run),
    /// Show what a run would do, stage by stage, and why
    Plan(Plan),
    /// Find all errors in pipeline files without running anything
    Check(Check),
    /// Run the tests in pipeline files
    Test(Check),
    /// Explain why a stage is cached or would run
    Why(Why),
    /// List runs, newest first
    Runs(Runs),
    /// Answer requests to models that runs elsewhere publish in the store (`run --workers`)
    Work(WorkArgs),
    /// List the processes that answer requests of runs
    Workers(WorkersArgs),
    /// Show the stages of a run, or one of them with its first rows; or the models of a pipeline
    Show(Show),
    /// Query the tables of a run
    Sql(Sql),
    /// Run pipelines when they are due: every night, say
    Schedule(ScheduleArgs),
    /// Judge whether a run may take the place of another: pass, fail, or cannot tell. Exit code 1 for a fail,
    /// 6 without a verdict
    Gate(GateArgs),
    /// Names for runs that move: `PIPELINE@baseline` by hand, others when a run passes a gate
    Channel(ChannelArgs),
    /// Compare two runs: their inputs, their metrics with paired tests, and which rows changed
    Diff(Diff),
    /// Show how a metric of a pipeline changed from run to run, as a table and a plot
    Trends(Trends),
    /// List the failed rows of a run, with reasons and the commands that retry them
    Errors(Errors),
    /// Show everything about a run or a schedule on one page: verdict, metrics, trend, changed questions with their proofs, cost,
    /// errors; as one HTML file, if wanted
    Report(Report),
    /// Teach a memory (missing or false facts, bad reasoning, right answers), show it, undo entries
    Teach(Teach),
    /// Trace where the answers of a run come from
    Audit(AuditArgs),
    /// List the model answers recorded in this store, and forget wrong ones
    Ledger(Ledger),
    /// Start a project: a first pipeline with its data, a project file, and the schema for editors
    Init(Init),
    /// List the SQL functions, or explain one
    Functions(Functions),
    /// Print the JSON Schema of pipeline, schedule or gate files, for editors
    Schema(SchemaArgs),
    /// Print a script that completes commands in a shell
    Completions(Completions),
    /// Print the manual page
    Man,
    /// Explain an error code
    Explain(Explain),
}

/// A pipeline file with its parameters.
#[derive(Clone, Debug, Args)]
pub struct Pipeline {
    /// The pipeline file
    pub pipeline: PathBuf,
    /// Set a parameter; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_param)]
    pub params: Vec<(String, String)>,
    /// Limit each `read` to its first ROWS rows by `row_id`, for a quick trial. Metrics of such a run are not
    /// those of the full pipeline
    #[arg(long, value_name = "ROWS")]
    pub limit: Option<NonZeroU64>,
    /// The generation under which endpoints answer anew.
    #[arg(skip)]
    pub generation: Option<String>,
}

impl Pipeline {
    /// A pipeline with all rows that it reads.
    pub fn with(pipeline: &Path, params: &[(String, String)]) -> Self {
        let (pipeline, params) = (pipeline.to_owned(), params.to_vec());
        Self { pipeline, params, limit: None, generation: None }
    }
}

/// `run`
#[derive(Debug, Args)]
pub struct Run {
    /// What to run.
    #[command(flatten)]
    pub pipeline: Pipeline,
    /// Only these stages: `stage`, `+stage` with all upstream stages, `stage+` with all downstream stages;
    /// `changed` for stages that are new or have other settings, sources or models; separate several with
    /// commas. Their inputs are taken from the store or computed
    #[arg(long)]
    pub select: Option<String>,
    /// Rerun these stages even if they are in the store; same syntax as `--select`
    #[arg(long)]
    pub rerun: Option<String>,
    /// Check every object of every stored table, and recompute damaged ones; without it only the objects
    /// that this run reads are checked. Queries are also computed by a second plan, with fewer optimizer
    /// rules: the run fails if its rows differ
    #[arg(long)]
    pub verify: bool,
    /// Resume a stopped or failed run under its own id: give a prefix of the id, or `latest` for the latest
    /// run of this pipeline
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// Stop between rows once this much is spent, so that `--resume` continues there: `tokens=1000000`
    /// (computed by models or counted by endpoints), `requests=500`, `money=2.50` (by the models' `prices`),
    /// `time=30m`, or several separated by commas. Exit code 5
    #[arg(long, value_name = "LIMITS")]
    pub budget: Option<Budget>,
    /// Do not copy the declared code of programs into the store, where the run keeps its digests: the run cannot
    /// be replayed from the store alone
    #[arg(long)]
    pub no_code_copy: bool,
    /// Where answers of endpoints come from: `ledger`, where it has them; `all`, from the endpoints, with new tables
    /// beside those recorded; `sample:2%`, from the ledger, and that share is requested once more and compared
    #[arg(long, value_name = "WHERE", default_value_t = Ask::Ledger)]
    pub ask: Ask,
    /// Publish requests to models in the store, for `proofmill work` on any machine; this process answers as well
    #[arg(long)]
    pub workers: bool,
}

/// `plan`
#[derive(Debug, Args)]
pub struct Plan {
    /// What to plan.
    #[command(flatten)]
    pub pipeline: Pipeline,
    /// Only these stages; same syntax as for `run`
    #[arg(long)]
    pub select: Option<String>,
    /// Plan as if these stages were rerun; same syntax as for `run`
    #[arg(long)]
    pub rerun: Option<String>,
    /// Check every object of every stored table, as `run --verify` does
    #[arg(long)]
    pub verify: bool,
    /// Where answers of endpoints would come from; same as for `run`
    #[arg(long, value_name = "WHERE", default_value_t = Ask::Ledger)]
    pub ask: Ask,
}

/// `schema`
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Of which files
    #[arg(value_enum, default_value_t = SchemaOf::Pipeline)]
    pub of: SchemaOf,
}

/// Files that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// Pipelines.
    Pipeline,
    /// Schedules.
    Schedule,
    /// Gates.
    Gate,
}

/// `check` and `test`
#[derive(Debug, Args)]
pub struct Check {
    /// The pipeline files
    #[arg(required = true)]
    pub pipelines: Vec<PathBuf>,
    /// Set a parameter; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_param)]
    pub params: Vec<(String, String)>,
}

/// `why`
#[derive(Debug, Args)]
pub struct Why {
    /// Where the stage is.
    #[command(flatten)]
    pub pipeline: Pipeline,
    /// The stage
    pub stage: String,
}

/// `runs`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Runs {
    /// Something else than a list.
    #[command(subcommand)]
    pub other: Option<RunsOther>,
    /// Maximum number of runs
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
    /// Only runs of this pipeline
    #[arg(long, value_name = "NAME")]
    pub pipeline: Option<String>,
}

/// What `runs` does beside listing.
#[derive(Debug, Subcommand)]
pub enum RunsOther {
    /// Stop a run, whichever machine it runs on: between commits, so that it can be resumed
    Stop(RunsStop),
}

/// `runs stop`
#[derive(Debug, Args)]
pub struct RunsStop {
    /// The run: a prefix of its id, `latest` or `PIPELINE`; `~N` after either means the Nth before
    pub run: String,
}

/// `show`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Show {
    /// Something else than a run.
    #[command(subcommand)]
    pub other: Option<ShowOther>,
    /// The stage; all stages of the run when absent. With `--source`, the path or name of one of its texts
    pub stage: Option<String>,
    /// The run: a prefix of its id, `latest` or `PIPELINE`; `~N` after either means the Nth before
    #[arg(long, default_value = LATEST)]
    pub run: String,
    /// Maximum number of rows [default: 10 of a table]
    #[arg(long, conflicts_with = "limit")]
    pub rows: Option<usize>,
    /// Print the pipeline file that this run ran, from the store; or, with a name, a template, a prompt or code
    #[arg(long, value_name = "RUN", conflicts_with_all = ["run", "rows"])]
    pub source: Option<String>,
    /// How rows are given out.
    #[command(flatten)]
    pub out: RowOptions,
}

/// How rows are given out: for `sql` and `show STAGE`.
#[derive(Clone, Debug, Args)]
pub struct RowOptions {
    /// Maximum number of rows; 0 for all [default: 100 of a query and 10 of a stage as tables, all in
    /// machine-readable formats and files]
    #[arg(long)]
    pub limit: Option<usize>,
    /// Output format [default: table]
    #[arg(long, value_enum)]
    pub format: Option<Printed>,
    /// Write the rows to a file instead, in the format of its name: `.csv`, `.jsonl`, `.parquet` and so on. It appears
    /// once it is complete
    #[arg(long, short, value_name = "FILE", conflicts_with = "format")]
    pub output: Option<PathBuf>,
    /// Do not truncate long texts or fit tables to the terminal
    #[arg(long)]
    pub full: bool,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// A table, fitted to the terminal if there is one.
    Table,
    /// One row below the other, with a line for each column.
    Vertical,
    /// For programs.
    Rows(Format),
}

impl ValueEnum for Printed {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Table,
            Self::Vertical,
            Self::Rows(Format::Csv),
            Self::Rows(Format::Tsv),
            Self::Rows(Format::Jsonl),
            Self::Rows(Format::Json),
            Self::Rows(Format::Lines),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Table => ("table", "A table, fitted to the terminal if there is one"),
            Self::Vertical => ("vertical", "One row below the other, with a line for each column"),
            Self::Rows(format) => (traits(*format).name, traits(*format).written),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// `diff`
#[derive(Debug, Args)]
pub struct Diff {
    /// The first run, as for `show --run`
    #[arg(default_value = "latest~1")]
    pub a: String,
    /// The second run
    #[arg(default_value = LATEST)]
    pub b: String,
    /// Show the rows of this stage that differ, with both values
    pub stage: Option<String>,
    /// Columns that identify a row; detected when absent
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub on: Vec<String>,
    /// Columns to leave out of the comparison
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Maximum number of differing rows
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
    /// Say which part moves the metrics: file, params, inputs, models, memory. Each part that differs is swapped alone between the
    /// runs, both ways, and what that makes is computed; tables and answers of the store are used
    #[arg(long, conflicts_with_all = ["stage", "on", "ignore"])]
    pub attribute: bool,
    /// With `--attribute`: say what it takes, and compute nothing
    #[arg(long, requires = "attribute")]
    pub dry_run: bool,
}

/// `trends`
#[derive(Debug, Args)]
pub struct Trends {
    /// The pipeline, by its name
    pub pipeline: String,
    /// The metric, or `STAGE.METRIC`; without one, the available metrics are listed
    pub metric: Option<String>,
    /// Maximum number of runs, newest first
    #[arg(long, default_value_t = 30)]
    pub limit: usize,
}

/// `errors`
#[derive(Debug, Args)]
pub struct Errors {
    /// The run, as for `show`
    #[arg(default_value = LATEST)]
    pub run: String,
    /// Only rows of this stage
    pub stage: Option<String>,
    /// Maximum number of rows; 0 for all
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

/// `report`
#[derive(Debug, Args)]
pub struct Report {
    /// The run, as for `show`
    #[arg(default_value = LATEST, conflicts_with = "schedule")]
    pub run: String,
    /// A schedule: its nights, and the page of its last run
    #[arg(long, value_name = "NAME")]
    pub schedule: Option<PipelineName>,
    /// The run to compare with [default: the baseline of the verdict, else the run of the pipeline before]
    #[arg(long, value_name = "RUN")]
    pub against: Option<String>,
    /// One HTML document, without scripts and without anything from elsewhere
    #[arg(long)]
    pub html: bool,
    /// Write the document to this file
    #[arg(long, short, value_name = "FILE", requires = "html")]
    pub out: Option<PathBuf>,
    /// Changed questions of a metric whose proofs are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub proofs: u16,
    /// Nights of a schedule
    #[arg(long, value_name = "N", default_value_t = 60, requires = "schedule")]
    pub nights: u16,
}

/// What `show` shows beside runs.
#[derive(Debug, Subcommand)]
pub enum ShowOther {
    /// Show models with their sizes and devices, and the GPUs of this machine
    Models(ShowModels),
}

/// `show models`
#[derive(Debug, Args)]
pub struct ShowModels {
    /// A pipeline file, whose models are shown; only GPUs when absent
    pub pipeline: Option<PathBuf>,
    /// Set a parameter; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_param)]
    pub params: Vec<(String, String)>,
}

/// `sql`
#[derive(Debug, Args)]
pub struct Sql {
    /// The query; `-` reads it from standard input
    #[arg(required_unless_present = "file")]
    pub query: Option<String>,
    /// A file that holds the query
    #[arg(long, short, value_name = "FILE", conflicts_with = "query")]
    pub file: Option<PathBuf>,
    /// The run, as for `show`; or `NAME=RUN`, whose tables are `NAME.table`. May be given several times, to
    /// compare runs in one query
    #[arg(long = "run", default_value = LATEST, value_name = "[NAME=]RUN")]
    pub runs: Vec<String>,
    /// How rows are given out.
    #[command(flatten)]
    pub out: RowOptions,
    /// A pipeline file whose models the query may call
    #[arg(long, value_name = "PIPELINE")]
    pub models: Option<PathBuf>,
}

/// `ledger`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Ledger {
    /// What to do.
    #[command(subcommand)]
    pub action: LedgerAction,
}

/// What can be done with recorded answers.
#[derive(Debug, Subcommand)]
pub enum LedgerAction {
    /// List the models that answered, how often and when, and what was forgotten
    List,
    /// Invalidate recorded answers; the next request calls the model again. What was forgotten, by whom
    /// and why, stays on record
    Forget(Forget),
}

/// Which answers `ledger forget` means.
#[derive(Debug, Args)]
#[group(id = "what", required = true, multiple = false)]
pub struct ForgetWhat {
    /// All answers of a model: its id as `ledger list` shows it, the digest of its weights, or its
    /// name or address at an endpoint; may be given several times
    #[arg(long, value_name = "MODEL")]
    pub model: Vec<String>,
    /// The answer to a request: its `request_digest`; may be given several times
    #[arg(long, value_name = "DIGEST")]
    pub request: Vec<String>,
}

/// `ledger forget`
#[derive(Debug, Args)]
pub struct Forget {
    /// Which answers.
    #[command(flatten)]
    pub what: ForgetWhat,
    /// The reason
    #[arg(long, default_value = "")]
    pub reason: String,
    /// The author of this entry
    #[arg(long, env = "USER", hide_env_values = true, default_value = "unknown")]
    pub author: String,
}

/// `init`
#[derive(Debug, Args)]
pub struct Init {
    /// The folder; created if missing
    #[arg(default_value = ".")]
    pub folder: PathBuf,
}

/// `completions`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `functions`
#[derive(Debug, Args)]
pub struct Functions {
    /// The function, proofmill's own or DataFusion's; all of proofmill's own when absent
    pub name: Option<String>,
}

/// `explain`
#[derive(Debug, Args)]
pub struct Explain {
    /// The code, such as E0102; all codes when absent
    pub code: Option<String>,
}
