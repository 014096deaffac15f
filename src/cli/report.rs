//! `proofmill report`

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::output::to_file;
use crate::cli::schedule::look::named_or_all;
use crate::views::page::html::document;
use crate::views::page::run::{PageParts, RunPage};
use crate::views::page::schedule::{Nights, SchedulePage};
use crate::views::schedule::ScheduleStatus;
use crate::views::section::View;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::PipelineName;
use proofmill_catalog::summary::{RunSummary, summary};
use proofmill_store::Store;

/// What is said where a page cannot be written.
const ELSEWHERE: &str = "without `--out`, the page goes to standard output";

/// Shows everything about a run or a schedule on one page.
pub async fn report(args: &args::Report, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let against = match &args.against {
        Some(wanted) => Some(environment.run(&store, Some(wanted)).await?),
        None => None,
    };
    let engine = environment.host.engine(&store, &environment.host.new_run())?;
    let store_option = environment.store_option();
    let proofs = args.proofs.into();
    let parts = PageParts { store: &store, engine: &engine, store_option: &store_option, proofs };
    match &args.schedule {
        None => {
            let run = environment.run(&store, Some(&args.run)).await?;
            refuse_itself(&run, against.as_ref())?;
            let page = RunPage::of(&run, against, &parts).await?;
            give(&page.title(), &page, args, environment)
        }
        Some(name) => {
            let (nights, last) = nights(name, args, environment, &store).await?;
            let last = match &last {
                Some(run) => Some(RunPage::of(run, against, &parts).await?),
                None => None,
            };
            give(&format!("schedule {name}"), &SchedulePage { nights, last }, args, environment)
        }
    }
}

async fn nights(
    name: &PipelineName,
    args: &args::Report,
    environment: &Environment,
    store: &Store,
) -> Result<(Nights, Option<RunSummary>)> {
    named_or_all(store, std::slice::from_ref(name)).await?;
    let status = ScheduleStatus::of(store, name, environment.host.clock().now()).await?;
    let nights = Nights::of(store, name, status, args.nights.into()).await?;
    let last = match nights.ended.first() {
        Some(night) => Some(summary(store, &night.run).await.map_err(Error::from)?),
        None => None,
    };
    Ok((nights, last))
}

fn refuse_itself(run: &RunSummary, against: Option<&RunSummary>) -> Result<()> {
    match against.filter(|other| other.run == run.run) {
        None => Ok(()),
        Some(same) => {
            let message = format!("run {} would be compared with itself", same.run);
            Err(Error::new(ErrorKind::Usage, message)
                .with_hint("name another run: `proofmill runs` lists runs"))
        }
    }
}

/// Prints or writes a page.
fn give(
    title: &str,
    page: &impl View,
    args: &args::Report,
    environment: &Environment,
) -> Result<()> {
    let output = &environment.output;
    if !args.html {
        return output.view(page);
    }
    let document = document(title, page);
    match &args.out {
        None => output.data(document),
        Some(path) => {
            to_file(path, document.as_bytes(), false, ELSEWHERE)?;
            output.remark(format!("`{}` has {} bytes", path.display(), document.len()));
            Ok(())
        }
    }
}
