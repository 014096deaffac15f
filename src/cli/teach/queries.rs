//! What `teach` shows: what a memory holds, its history, its conflicts, all memories.

use crate::cli::environment::Environment;
use crate::cli::teach::args::Of;
use crate::memory::{Journal, catalog};
use crate::report::units::plural;
use crate::views::memory::{ConflictsView, HistoryView, MemoriesView, MemoryView};
use proofmill_base::error::Result;
use proofmill_store::Store;

/// Shows what a memory holds.
pub async fn list(args: &Of, store: &Store, environment: &Environment) -> Result<()> {
    let journal = Journal::open_known(store, &args.name).await?;
    let output = &environment.output;
    output.view(&MemoryView::of(journal.state().rows(), args.full))?;
    let conflicts = journal.state().conflicts().len();
    if conflicts > 0 && !output.json {
        let name = &args.name;
        let some = plural(conflicts, "conflict");
        output.remark(format!("{some}; `proofmill teach conflicts {name}` shows them"));
    }
    Ok(())
}

/// Shows every entry.
pub async fn history(args: &Of, store: &Store, environment: &Environment) -> Result<()> {
    let journal = Journal::open_known(store, &args.name).await?;
    let view = HistoryView::of(journal.entries(), journal.undone_by(), args.full);
    environment.output.view(&view)
}

/// Shows the facts that conflict.
pub async fn conflicts(args: &Of, store: &Store, environment: &Environment) -> Result<()> {
    let journal = Journal::open_known(store, &args.name).await?;
    let view = ConflictsView::of(&journal.state().conflicts(), args.full);
    let output = &environment.output;
    if view.is_empty() && !output.json {
        output.remark(format!("no facts of `{}` conflict", args.name));
    }
    output.view(&view)
}

/// Lists the memories of the store.
pub async fn memories(store: &Store, environment: &Environment) -> Result<()> {
    let mut view = MemoriesView::default();
    for name in catalog(store).await?.into_keys() {
        let journal = Journal::open(store, &name).await?;
        view.add(name, journal.entries(), &journal.state().rows());
    }
    environment.output.view(&view)
}
