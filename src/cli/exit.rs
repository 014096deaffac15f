//! Exit codes, from one exhaustive match.

use std::process::ExitCode;

use proofmill_base::error::ErrorKind;

/// Success.
pub const OK: u8 = 0;
/// A stage, a check, a test or a gate failed.
pub const FAILED: u8 = 1;
/// The command line was wrong.
pub const USAGE: u8 = 2;
/// A pipeline file has errors.
pub const PIPELINE: u8 = 3;
/// The store failed or refused.
pub const STORE: u8 = 4;
/// A limit on memory, disk or time was reached, or results could not be printed.
pub const RESOURCES: u8 = 5;
/// A gate has no verdict.
pub const UNDECIDED: u8 = 6;
/// `gate --bisect`: this version tells nothing.
pub const UNTESTABLE: u8 = 125;
/// A bug in proofmill.
pub const INTERNAL: u8 = 70;
/// The run was stopped.
pub const INTERRUPTED: u8 = 130;

/// Every code and what it means, for the reference.
pub const MEANINGS: [(u8, &str); 10] = [
    (OK, "success"),
    (FAILED, "a stage, a check, a test or a gate failed"),
    (USAGE, "the command line was wrong, or named a file or a store that cannot be opened"),
    (PIPELINE, "a pipeline file has errors"),
    (STORE, "the store failed or refused"),
    (RESOURCES, "a limit on memory, disk or time was reached, or results could not be printed"),
    (UNDECIDED, "a gate has no verdict: it cannot tell, or the runs cannot be compared"),
    (INTERNAL, "a bug in proofmill"),
    (UNTESTABLE, "`gate --bisect`: this version tells nothing, and `git bisect run` skips it"),
    (INTERRUPTED, "the run was stopped"),
];

pub fn code(kind: ErrorKind) -> ExitCode {
    ExitCode::from(match kind {
        ErrorKind::Usage => USAGE,
        ErrorKind::Pipeline => PIPELINE,
        ErrorKind::Stage => FAILED,
        ErrorKind::Store => STORE,
        ErrorKind::Resources => RESOURCES,
        ErrorKind::Interrupted => INTERRUPTED,
        ErrorKind::Undecided => UNDECIDED,
        ErrorKind::Untestable => UNTESTABLE,
        ErrorKind::Internal => INTERNAL,
    })
}
