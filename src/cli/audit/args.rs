//! The arguments of `proofmill audit`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use crate::cli::values::parse_share;
use proofmill_catalog::reference::LATEST;

/// `audit`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct AuditArgs {
    /// What to look into.
    #[command(subcommand)]
    pub of: AuditOf,
}

/// What `audit` looks into.
#[derive(Debug, Subcommand)]
pub enum AuditOf {
    /// Show the whole path of an answer: what was recalled and who taught it, every proof with its
    /// beliefs and why it was accepted or rejected, and the decision
    Trace(TraceArgs),
    /// List the audit log: every run that began, how it ended, and what else changed the store's evidence
    Log(LogArgs),
    /// Verify a run, or the whole store: logs, signatures, digests, and rows. Changes nothing. Exit code 1 if
    /// something is not as it was written
    Verify(VerifyArgs),
    /// Write a folder that proves a number to somebody without the store: its records, every row that it counts with a
    /// path to the root of its table, and a program in Python that checks all of it
    Prove(ProveArgs),
    /// Write a run in the format of another tool: an in-toto test result, SLSA provenance, or OpenLineage events
    Export(ExportArgs),
    /// Compute the stages of a run again, from the texts that it kept and its stored inputs, and compare. Publishes
    /// nothing. Exit code 1 if a stage does not come out as it was
    Replay(ReplayArgs),
    /// Write a checkpoint of the audit log to a file to keep outside the store, or compare the log with one
    Anchor(AnchorArgs),
    /// Print a second verifier: a program in Python that shares no code with this one and needs its standard library only.
    /// `python3 verify.py STORE` verifies a store in a folder at levels 1 and 2
    Verifier,
    /// Print the root over the rows of a table. One that its record does not have, because it has more than 1,000,000
    /// rows or an older program wrote it, is computed once and entered into the audit log
    Root(RootArgs),
    /// Make a key that signs checkpoints, show its public half, or announce it in the audit log
    Key(KeyArgs),
}

/// `audit trace`
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// The question: its id, its text or a unique part of it, or the id of one of its hypotheses or
    /// proofs
    pub question: String,
    /// The run: a prefix of its id, `latest` or `PIPELINE`; `~N` after either means the Nth before
    #[arg(long, default_value = LATEST)]
    pub run: String,
    /// The `select_answer` or `teach` stage whose answer is traced, or `all` of them [default: the last
    /// that answers the question]; or any other stage, whose rows of the question are traced
    /// [default without those kinds: the one that most `measure` and `compare` stages read]
    #[arg(long, value_name = "STAGE")]
    pub answers: Option<String>,
    /// Rows to show of each table, for a stage that does not answer with proofs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Which proofs to show
    #[arg(long, value_enum, default_value_t = ProofsShown::All)]
    pub proofs: ProofsShown,
}

/// Which proofs a trace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProofsShown {
    /// All.
    All,
    /// Accepted ones.
    Accepted,
    /// The one that the answer rests on.
    Best,
}

/// `audit log`
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Only entries about runs of this pipeline
    #[arg(long)]
    pub pipeline: Option<String>,
    /// Maximum number of entries, the latest; 0 for all
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
}

/// `audit verify`
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The run: a prefix of its id, `latest` or `PIPELINE`; `~N` after either means the Nth before
    #[arg(default_value = LATEST)]
    pub run: String,
    /// Verify the whole store: all runs, records, recorded answers and memories
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
    /// How deep: 1 for logs, records and signatures, 2 also for the digest of every object, 3 also for rows,
    /// columns and roots of tables
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub level: u8,
    /// Note in this file what has been compared, and skip what it names already: a verification that is interrupted
    /// continues with the same command. The file is removed at the end
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// A checkpoint that was kept outside the store (`audit anchor --out`); may be given several times
    #[arg(long = "anchor", value_name = "FILE")]
    pub anchors: Vec<PathBuf>,
    /// The verifier key that signed checkpoints, as `audit key new` printed it. A key is never taken from the
    /// store
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// `audit prove`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("anchored").args(["anchor"]))]
pub struct ProveArgs {
    /// The run: a prefix of its id, `latest` or `PIPELINE`; `~N` after either means the Nth before
    pub run: String,
    /// The number: `STAGE.METRIC`, or `STAGE` for all metrics of a stage, or for all rows of one without metrics
    pub metric: String,
    /// The folder, which must not exist
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Prove also the rows of this item in all tables that the number was made of, such as its prompts, answers, proofs
    /// and decisions, and the facts that they name
    #[arg(long, value_name = "ID")]
    pub item: Option<String>,
    /// Put the rows themselves into the folder, and not only their hashes
    #[arg(long)]
    pub with_text: bool,
    /// The checkpoint of the bundle: one that was kept outside the store (`audit anchor --out`) after the run
    /// [default: of now, if PROOFMILL_SIGN_KEY names a key; otherwise the latest signed one in the store]
    #[arg(long, value_name = "FILE")]
    pub anchor: Option<PathBuf>,
    #[command(flatten)]
    pub stamp: StampArgs,
}

/// The timestamp of an anchor.
#[derive(Debug, Args)]
pub struct StampArgs {
    /// A timestamp of the anchor (RFC 3161): the response of an authority, as `openssl ts` and others store it
    #[arg(long, value_name = "FILE", requires_all = ["tsa_authority", "anchored"])]
    pub tsa_response: Option<PathBuf>,
    /// The certificates of the authority that is trusted, in PEM form. They are never taken from the response
    #[arg(long, value_name = "FILE", requires = "tsa_response")]
    pub tsa_authority: Option<PathBuf>,
}

/// `audit export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The run: a prefix of its id, `latest` or `PIPELINE`; `~N` after either means the Nth before
    #[arg(default_value = LATEST)]
    pub run: String,
    /// The format. The first two are signed by the key in the file that PROOFMILL_SIGN_KEY names
    #[arg(long = "as", value_enum)]
    pub format: ExportedAs,
    /// Write to this new file instead of standard output
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    pub out: Option<PathBuf>,
    /// Post the events of OpenLineage to this endpoint, each by itself; with the bearer token in PROOFMILL_OPENLINEAGE_KEY
    /// if it is set
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
}

/// Formats of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportedAs {
    /// The test-result predicate of in-toto: which stages and checks passed.
    InToto,
    /// The provenance predicate of SLSA: what made the tables, of what.
    Slsa,
    /// Events of OpenLineage: a job for the pipeline and one for each stage, with their tables.
    Openlineage,
}

/// `audit replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The run: a prefix of its id, `latest` or `PIPELINE`; `~N` after either means the Nth before
    #[arg(default_value = LATEST)]
    pub run: String,
    /// Only this share of its stages, such as `10%`, at least one: the same ones each time
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub sample: Option<f64>,
    /// Have models on this machine compute their answers again, in place of the recorded ones
    #[arg(long)]
    pub recompute: bool,
}

/// `audit anchor`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("action").args(["out", "check"]).required(true))]
#[command(group = ArgGroup::new("anchored").args(["check"]))]
pub struct AnchorArgs {
    /// Write a checkpoint of the log to this file; signed if PROOFMILL_SIGN_KEY names the file of a key
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Compare the log with the checkpoint in this file. Exit code 1 if the log is another, or shorter
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// With `--check`: the verifier key that must have signed it
    #[arg(long, value_name = "KEY", requires = "check")]
    pub key: Option<String>,
    #[command(flatten)]
    pub stamp: StampArgs,
}

/// `audit root`
#[derive(Debug, Args)]
pub struct RootArgs {
    /// The run: a prefix of its id, `latest` or `PIPELINE`; `~N` after either means the Nth before
    pub run: String,
    /// The stage
    pub stage: String,
}

/// `audit key`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct KeyArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: KeyAction,
}

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum KeyAction {
    /// Make a key: its private half into a new file, its verifier key to standard output
    New(NewKeyArgs),
    /// Print the verifier key of a private key
    Show(ShowKeyArgs),
    /// Enter a verifier key into the audit log, so that an anchor attests since when it was in use
    Announce(AnnounceArgs),
}

/// `audit key new`
#[derive(Debug, Args)]
pub struct NewKeyArgs {
    /// The file of the private key, which must not exist; keep it out of the store
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The name of the key in signatures [default: that of the store's log]
    #[arg(long)]
    pub name: Option<String>,
}

/// `audit key announce`
#[derive(Debug, Args)]
pub struct AnnounceArgs {
    /// The verifier key
    pub key: String,
}

/// `audit key show`
#[derive(Debug, Args)]
pub struct ShowKeyArgs {
    /// The file of the private key
    pub file: PathBuf,
}
