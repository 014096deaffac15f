//! The tables of past runs that a pipeline reads: which run is meant, and what it gave.

use std::collections::BTreeSet;

use crate::run::history::{RunSummary, artifact};
use crate::run::reference::RunReference;
use crate::stages::stored_tables::{StoredTable, StoredTableName, StoredTables};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_store::Store;

/// Finds the tables `wanted`, and what people should know of the runs that are meant. A run or a table that is not
/// there is a mistake of the pipeline, which is told at its place.
///
/// # Errors
///
/// If the store fails.
pub async fn past_tables(
    store: &Store,
    wanted: BTreeSet<StoredTableName>,
) -> Result<(StoredTables, BTreeSet<String>)> {
    let (mut tables, mut remarks) = (StoredTables::new(), BTreeSet::new());
    for (run, stage) in wanted {
        let found = match run_named(store, &run).await {
            Ok(summary) => {
                remarks.extend(summary.remark.clone());
                table(store, &summary, &stage).await
            }
            Err(error) => Err(error),
        };
        let found = match found {
            Err(error) if error.kind == ErrorKind::Usage => Err((error.message, error.hint)),
            found => Ok(found?),
        };
        tables.insert((run, stage), found);
    }
    Ok((tables, remarks))
}

async fn run_named(store: &Store, run: &str) -> Result<RunSummary> {
    run.parse::<RunReference>()?.find(store).await
}

/// The table of a stage that ended well: one that failed its checks is for people only.
async fn table(store: &Store, run: &RunSummary, stage: &str) -> Result<StoredTable> {
    let own = stage.strip_suffix("__errors").unwrap_or(stage);
    let found = run.stages.iter().find(|outcome| outcome.stage.as_str() == own);
    let record = match found {
        Some(outcome) => artifact(store, outcome).await?,
        None => None,
    };
    match record {
        Some(found) => Ok(StoredTable {
            run: run.run.clone(),
            artifact: found.record,
            is_errors: own != stage,
        }),
        None => {
            let error =
                Error::new(ErrorKind::Usage, format!("run `{}` has no table `{stage}`", run.run));
            let names = run.stages.iter().map(|outcome| outcome.stage.as_str());
            Err(suggest::help(stage, names).into_iter().fold(error, Error::with_hint))
        }
    }
}
