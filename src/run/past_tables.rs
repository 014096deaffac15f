//! The tables of past runs that a pipeline reads: which run is meant, and what it gave.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::bind::error_schema;
use crate::stages::stored_tables::{StoredTable, StoredTableName, StoredTables};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_catalog::reference::RunReference;
use proofmill_catalog::summary::{RunSummary, artifact};
use proofmill_store::{Store, Stored};

/// Finds the tables `wanted`, and what people should know of the runs that are meant. A run or a table that is not
/// there is a diagnostic of the pipeline, which is reported with its location.
///
/// # Errors
///
/// If the store fails.
pub async fn past_tables(
    store: &Store,
    wanted: BTreeSet<StoredTableName>,
) -> Result<(StoredTables, BTreeSet<String>)> {
    let (mut tables, mut remarks) = (StoredTables::new(), BTreeSet::new());
    let mut stages_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (run, stage) in &wanted {
        stages_of.entry(run).or_default().push(stage);
    }
    for (run, stages) in stages_of {
        let named = diagnostic(run_named(store, run, &stages).await)?;
        if let Ok(named) = &named {
            if named.run.as_str() != run {
                remarks.insert(format!("`{run}` is run {}", named.run));
            }
            remarks.extend(named.remark.clone());
        }
        for stage in stages {
            let found = match &named {
                Ok(named) => diagnostic(table(store, named, stage).await)?,
                Err(diagnostic) => Err(diagnostic.clone()),
            };
            tables.insert((run.to_owned(), stage.to_owned()), found);
        }
    }
    Ok((tables, remarks))
}

/// What a diagnostic of the pipeline says, apart from what keeps the store from answering.
fn diagnostic<T>(found: Result<T>) -> Result<std::result::Result<T, (String, Option<String>)>> {
    match found {
        Err(error) if error.kind == ErrorKind::Usage => Ok(Err((error.message, error.hint))),
        found => found.map(Ok),
    }
}

/// The run that gives all of `stages`: the tables of a reference are those of one run.
async fn run_named(store: &Store, run: &str, stages: &[&str]) -> Result<RunSummary> {
    let own: Vec<&str> = stages.iter().map(|stage| own(stage)).collect();
    run.parse::<RunReference>()?.find_with(store, &own).await
}

/// The stage whose table or error rows are named.
fn own(stage: &str) -> &str {
    stage.strip_suffix("__errors").unwrap_or(stage)
}

/// The table of a stage that ended well: one that failed its checks is for people only.
async fn table(store: &Store, run: &RunSummary, stage: &str) -> Result<StoredTable> {
    let own = own(stage);
    let found = run.stages.iter().find(|outcome| outcome.stage.as_str() == own);
    let record = match found {
        Some(outcome) => artifact(store, outcome).await?,
        None => None,
    };
    match record {
        Some(Stored { record, .. }) => {
            let errors = match own != stage {
                true => Some(error_schema(store, &record).await?),
                false => None,
            };
            Ok(StoredTable { run: run.run.clone(), artifact: record, errors })
        }
        None => {
            let error =
                Error::new(ErrorKind::Usage, format!("run `{}` has no table `{stage}`", run.run));
            let names = run.stages.iter().map(|outcome| outcome.stage.as_str());
            Err(suggest::help(stage, names).into_iter().fold(error, Error::with_hint))
        }
    }
}
