//! The arguments of `proofmill gate` and `proofmill channel`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::values::parse_param;
use proofmill_base::ids::PipelineName;

/// `gate`
#[derive(Debug, Args)]
pub struct GateArgs {
    /// The run to compare with [default: the `baseline` of the gate, else the run before the latest]
    pub baseline: Option<String>,
    /// The run to judge; or a pipeline file, which is run first unless it differs in what may not [default:
    /// the latest run of the baseline's pipeline]
    pub candidate: Option<String>,
    /// The gate file
    #[arg(long, short, required_unless_present = "check")]
    pub file: Option<PathBuf>,
    /// Derive a verdict again from its evidence, and refuse one that this does not entail: that of a file, for which
    /// no store is needed, or the last one about a run
    #[arg(long, value_name = "VERDICT|RUN", conflicts_with_all = ["file", "baseline", "candidate", "bisect", "out", "junit", "summary", "annotations", "params"])]
    pub check: Option<String>,
    /// Write the verdict with its evidence to this file, for `--check`
    #[arg(long, value_name = "VERDICT")]
    pub out: Option<PathBuf>,
    /// Write a JUnit report: a test case for each metric, and an error for what has no verdict
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Append the verdict in Markdown to this file, such as `$GITHUB_STEP_SUMMARY`: at most 65,000 characters
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Print a line for each metric that does not pass, as GitHub shows it beside the line of the gate file
    #[arg(long)]
    pub annotations: bool,
    /// Exit codes for `git bisect run`: 0 pass, 1 fail, 125 for all else, errors included
    #[arg(long)]
    pub bisect: bool,
    /// Set a parameter of the pipeline file that is judged; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_param)]
    pub params: Vec<(String, String)>,
}

/// `channel`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct ChannelArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: ChannelAction,
}

/// What can be done with channels.
#[derive(Debug, Subcommand)]
pub enum ChannelAction {
    /// List the channels of a pipeline: `baseline`, which is pinned, and those that move when a run passes a gate
    List(ChannelListArgs),
    /// Have `PIPELINE@baseline` mean this run from now on
    Pin(PinArgs),
}

/// `channel list`
#[derive(Debug, Args)]
pub struct ChannelListArgs {
    /// The pipeline
    pub pipeline: PipelineName,
}

/// `channel pin`
#[derive(Debug, Args)]
pub struct PinArgs {
    /// The run
    pub run: String,
    /// Who answers for the choice
    #[arg(long)]
    pub owner: String,
    /// Why this run
    #[arg(long)]
    pub reason: String,
}
