//! Reads a schedule file, with what its values mean where runs are started.

use std::path::Path;

use chrono::{DateTime, Utc};

use crate::cli::environment::Environment;
use crate::host::budget::Budget;
use crate::stages::load::bytes_of;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_pipeline::gate::{self, Gate};
use proofmill_schedule::file::{self, Checks, Schedule};

/// Reads a schedule file that must be valid; its diagnostics are printed. Its calendar is looked at from `now` on.
pub fn read(path: &Path, now: DateTime<Utc>, environment: &Environment) -> Result<Schedule> {
    let shown = path.display().to_string();
    let bytes = bytes_of(path).map_err(|why| {
        Error::new(ErrorKind::Usage, why)
            .with_hint("name a schedule file, or a schedule of the store")
    })?;
    let budget = |text: &str, has_workers: bool| {
        let budget: Budget = text.parse()?;
        if has_workers { budget.fits_workers() } else { Ok(()) }
    };
    let checks = Checks { budget: &budget, gate: &gate_of };
    file::parse(&shown, &bytes, now, checks).or_else(|(diagnostics, sources)| {
        environment.output.diagnostics(&diagnostics, &sources)?;
        Err(Error::new(ErrorKind::Pipeline, format!("`{shown}` has errors")))
    })
}

/// Reads a gate file; what is wrong with it, in one line.
fn gate_of(path: &str) -> std::result::Result<Gate, String> {
    let bytes = bytes_of(Path::new(path))?;
    let read = gate::parse(path, &bytes);
    read.map(|(gate, _)| gate).map_err(|(wrong, sources)| {
        let first = wrong.first().map(|wrong| {
            let (line, column) = sources.position(wrong.span);
            format!("{path}:{line}:{column}: {}", wrong.message)
        });
        first.unwrap_or_default()
    })
}
