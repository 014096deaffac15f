//! `proofmill completions` and `proofmill man`, made from the arguments themselves.

use clap::CommandFactory;

use crate::cli::args::{self, Cli};
use crate::cli::environment::Environment;
use proofmill_base::error::{Error, ErrorKind, Result};

/// Prints a script that completes commands in a shell.
pub fn completions(args: &args::Completions, environment: &Environment) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "proofmill", &mut script);
    environment.output.data(String::from_utf8_lossy(&script).into_owned())
}

/// Prints the manual page.
pub fn man(environment: &Environment) -> Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(|error| {
        Error::new(ErrorKind::Internal, "the manual page cannot be generated").with_source(error)
    })?;
    environment.output.data(String::from_utf8_lossy(&page).into_owned())
}
