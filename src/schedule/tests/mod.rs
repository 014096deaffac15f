//! Tests of this crate.

mod calendars;
mod decisions;
mod processes;

use crate::file::Checks;

/// Budgets are good, and there are no gates.
fn checks() -> Checks<'static> {
    Checks { budget: &|_, _| Ok(()), gate: &|path| Err(format!("`{path}` cannot be read")) }
}
