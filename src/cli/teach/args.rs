//! Arguments of `teach`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::memory::Sentence;
use proofmill_base::ids::MemoryName;

/// `teach`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Teach {
    /// What is taught, or shown.
    #[command(subcommand)]
    pub what: What,
}

/// What `teach` does.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Add a fact that is missing or should be used
    Add(Add),
    /// Mark a fact as false: it is retired, and its negation is added
    Negate(Negate),
    /// Block bad reasoning: premises that do not entail a hypothesis
    Block(Block),
    /// Confirm an answer: the question keeps it, and the premises of its proof are recorded as facts
    Confirm(Confirm),
    /// Mark a fact as irrelevant to a question
    Exclude(Steer),
    /// Use a fact of the memory for a question, ahead of all recalled facts
    Force(Steer),
    /// Undo entries; undoing an `undo` restores the entries
    Undo(Undo),
    /// Add the lessons of a file (`.jsonl`, `.json`, `.csv`, `.tsv`): all of them, or none if one is
    /// invalid
    Import(Import),
    /// Show what a memory holds
    List(Of),
    /// Show every entry of a memory, and which are undone
    History(Of),
    /// Show the facts of a memory that conflict
    Conflicts(Of),
    /// List the memories of the store
    Memories,
}

/// Who says something, and why.
#[derive(Clone, Debug, Args)]
pub struct Signed {
    /// The author
    #[arg(long, env = "USER", hide_env_values = true, default_value = "unknown")]
    pub author: String,
    /// The reason
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The proof that prompted it: its `proof_id`
    #[arg(long, value_name = "PROOF_ID")]
    pub proof: Option<String>,
    /// The run of the proof, as for `show`
    #[arg(long)]
    pub run: Option<String>,
}

/// `teach add`
#[derive(Debug, Args)]
pub struct Add {
    /// The memory; created if it does not exist
    #[arg(value_name = "MEMORY")]
    pub name: MemoryName,
    /// The fact, as one sentence
    pub fact: Sentence,
    /// The fact is true regardless of what the model believes: its `source` is `affirmed`
    #[arg(long = "true")]
    pub is_true: bool,
    /// The question that the fact is for
    #[arg(long)]
    pub question: Option<Sentence>,
    /// Add nothing if it conflicts with a fact of the memory
    #[arg(long)]
    pub refuse_conflicts: bool,
    /// Who says so.
    #[command(flatten)]
    pub signed: Signed,
}

/// `teach negate`
#[derive(Debug, Args)]
pub struct Negate {
    /// The memory; created if it does not exist
    #[arg(value_name = "MEMORY")]
    pub name: MemoryName,
    /// The false fact, as one sentence
    pub fact: Sentence,
    /// The true fact instead [default: its negation, by rule]
    #[arg(long = "as", value_name = "SENTENCE")]
    pub instead: Option<Sentence>,
    /// The question that the fact is for
    #[arg(long)]
    pub question: Option<Sentence>,
    /// Add nothing if the replacement conflicts with a fact of the memory
    #[arg(long)]
    pub refuse_conflicts: bool,
    /// Who says so.
    #[command(flatten)]
    pub signed: Signed,
}

/// `teach block`
#[derive(Debug, Args)]
pub struct Block {
    /// The memory; created if it does not exist
    #[arg(value_name = "MEMORY")]
    pub name: MemoryName,
    /// The hypothesis [default: that of `--proof`]
    #[arg(long, required_unless_present = "proof")]
    pub hypothesis: Option<Sentence>,
    /// A premise; may be given several times [default: those of `--proof`]
    #[arg(long = "premise", value_name = "PREMISE", required_unless_present = "proof")]
    pub premises: Vec<Sentence>,
    /// The stage of the proof, if several stages have one with that id
    #[arg(long)]
    pub stage: Option<String>,
    /// Who says so.
    #[command(flatten)]
    pub signed: Signed,
}

/// `teach confirm`
#[derive(Debug, Args)]
pub struct Confirm {
    /// The memory; created if it does not exist
    #[arg(value_name = "MEMORY")]
    pub name: MemoryName,
    /// The question [default: that of `--proof`]
    #[arg(long, required_unless_present = "proof")]
    pub question: Option<Sentence>,
    /// Its answer, exactly as among the choices [default: that of `--proof`]
    #[arg(long, required_unless_present = "proof")]
    pub answer: Option<Sentence>,
    /// A premise of its proof; may be given several times [default: those of `--proof`]
    #[arg(long = "premise", value_name = "PREMISE")]
    pub premises: Vec<Sentence>,
    /// The stage of the proof, if several stages have one with that id
    #[arg(long)]
    pub stage: Option<String>,
    /// Who says so.
    #[command(flatten)]
    pub signed: Signed,
}

/// `teach exclude` and `teach force`
#[derive(Debug, Args)]
pub struct Steer {
    /// The memory
    #[arg(value_name = "MEMORY")]
    pub name: MemoryName,
    /// The fact
    pub fact: Sentence,
    /// The question
    #[arg(long)]
    pub question: Sentence,
    /// Who says so.
    #[command(flatten)]
    pub signed: Signed,
}

/// `teach undo`
#[derive(Debug, Args)]
pub struct Undo {
    /// The memory
    #[arg(value_name = "MEMORY")]
    pub name: MemoryName,
    /// Entry numbers, as shown by `history`
    #[arg(required = true)]
    pub entries: Vec<u64>,
    /// Who says so.
    #[command(flatten)]
    pub signed: Signed,
}

/// `teach import`
#[derive(Debug, Args)]
pub struct Import {
    /// The memory; created if it does not exist
    #[arg(value_name = "MEMORY")]
    pub name: MemoryName,
    /// The file: a column `fact`, and as needed `action`, `as`, `question`, `answer`,
    /// `hypothesis`, `premises`, `author`, `reason`, `proof`, `run`
    pub file: PathBuf,
    /// Add nothing if a fact conflicts with another one
    #[arg(long)]
    pub refuse_conflicts: bool,
    /// The author of lessons that name none
    #[arg(long, env = "USER", hide_env_values = true, default_value = "unknown")]
    pub author: String,
}

/// A memory to show.
#[derive(Debug, Args)]
pub struct Of {
    /// The memory
    #[arg(value_name = "MEMORY")]
    pub name: MemoryName,
    /// Do not cut long texts
    #[arg(long)]
    pub full: bool,
}
