//! `proofmill sql`

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use futures::{StreamExt, TryStreamExt};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::rows::{Batches, Limited, Outlet};
use crate::run::bind::tables;
use crate::session::execute::{Operators, with_row};
use crate::session::{self, Engine, Planned};
use crate::sqltext::{self, Query, SqlErrorKind};
use crate::stages::error::StageError;
use crate::system::catalog::{SystemTable, system_tables};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::is_name;
use proofmill_base::suggest;
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::node::{Node, Value};
use proofmill_pipeline::source::{Sources, Span};
use proofmill_store::Store;

/// Rows of a query that are printed for people unless they say how many.
const ROWS_SHOWN: usize = 100;

/// Answers a query over the tables of a run.
pub async fn sql(args: &args::Sql, environment: &Environment) -> Result<()> {
    let outlet = Outlet::of(&args.out, ROWS_SHOWN, &environment.output)?;
    let text = text(args)?;
    let query = sqltext::parse(&text).map_err(|error| {
        let code = match error.kind {
            SqlErrorKind::Syntax => Code::SqlSyntax,
            SqlErrorKind::NotAllowed => Code::SqlNotAllowed,
            SqlErrorKind::TooLarge => Code::SqlTooLarge,
        };
        let copies = text.get(error.range.clone()).is_some_and(|it| it.eq_ignore_ascii_case("COPY"));
        let help = copies.then(|| {
            "`proofmill sql QUERY --output FILE` writes rows to a `.csv`, `.jsonl` or `.parquet` file".to_owned()
        });
        refuse(&text, code, error.message, error.range, help, environment)
    })?;
    let store = match args.models {
        // What models say is recorded there.
        Some(_) => environment.host.store().await?,
        None => environment.host.store_to_read().await?,
    };
    // A query without tables of runs needs none.
    let runs = match query.tables.iter().all(|table| SystemTable::is_prefixed(&table.name)) {
        true => NamedRuns::new(),
        false => runs(&args.runs, &store, environment).await?,
    };
    let mut engine = environment.host.engine(&store, &environment.host.new_run())?;
    let mut named = named_tables(&query, &runs, &store, environment).await?;
    named.extend(of_store(&query, &store, &engine, environment).await?);
    if let Some(pipeline) = &args.models {
        let pipeline = args::Pipeline::with(pipeline, &[]);
        engine = environment.load(&pipeline, &engine).await?.engine;
    }
    let input_rows = named.values().filter_map(rows_of).sum::<usize>() as u64;
    let planned = session::query(engine.planning(), &query, named).map_err(|error| {
        refuse(&text, error.code, error.message, error.range, error.help, environment)
    })?;
    let rows = stream(&planned, &engine, input_rows).await?;
    outlet.give(&planned.schema, rows, &environment.output).await
}

/// The text of the query.
fn text(args: &args::Sql) -> Result<String> {
    let unreadable = |what: String, error: std::io::Error| {
        Error::new(ErrorKind::Usage, format!("{what} cannot be read")).with_source(error)
    };
    match (&args.file, args.query.as_deref()) {
        (Some(path), _) => std::fs::read_to_string(path)
            .map_err(|error| unreadable(format!("`{}`", path.display()), error)),
        (None, Some("-")) => std::io::read_to_string(std::io::stdin())
            .map_err(|error| unreadable("standard input".to_owned(), error)),
        (None, query) => Ok(query.unwrap_or_default().to_owned()),
    }
}

fn rows_of(table: &Arc<dyn TableProvider>) -> Option<usize> {
    table.statistics()?.num_rows.get_value().copied()
}

/// Runs, each with the name that stands before its tables; at most one has none.
type NamedRuns = Vec<(Option<String>, RunSummary)>;

async fn runs(wanted: &[String], store: &Store, environment: &Environment) -> Result<NamedRuns> {
    let mut runs = NamedRuns::new();
    for wanted in wanted {
        let (name, run) = match wanted.split_once('=') {
            Some((name, run)) if is_name(name) => (Some(name.to_owned()), run),
            Some((name, _)) => {
                let message = format!("`{name}` is not a valid name for a run");
                let help = "use a lower-case letter, then lower-case letters, digits or `_`";
                return Err(Error::new(ErrorKind::Usage, message).with_hint(help));
            }
            None => (None, wanted.as_str()),
        };
        if runs.iter().any(|(other, _)| *other == name) {
            let message = match name {
                Some(name) => format!("two runs are called `{name}`"),
                None => "two runs have no name".to_owned(),
            };
            let help =
                "name each: `--run a=RUN --run b=RUN`, and their tables `a.table` and `b.table`";
            return Err(Error::new(ErrorKind::Usage, message).with_hint(help));
        }
        runs.push((name, environment.run(store, Some(run)).await?));
    }
    Ok(runs)
}

/// The run that a table is of, and what it is called there.
fn run_of<'r, 't>(runs: &'r NamedRuns, table: &'t str) -> Option<(&'r RunSummary, &'t str)> {
    let prefixed = table.split_once('.').and_then(|(name, rest)| {
        let named = runs.iter().find(|(run, _)| run.as_deref() == Some(name));
        named.map(|(_, run)| (run, rest))
    });
    let alone = || runs.iter().find(|(name, _)| name.is_none()).map(|(_, run)| (run, table));
    prefixed.or_else(alone)
}

/// The tables that the query names.
async fn named_tables(
    query: &Query,
    runs: &NamedRuns,
    store: &Store,
    environment: &Environment,
) -> Result<HashMap<String, Arc<dyn TableProvider>>> {
    let text = &query.text;
    let mut named: HashMap<String, Arc<dyn TableProvider>> = HashMap::new();
    for table in query.tables.iter().filter(|table| !SystemTable::is_prefixed(&table.name)) {
        let Some((run, own)) = run_of(runs, &table.name) else {
            let message = format!("`{}` does not say which run it belongs to", table.name);
            let names: Vec<String> = runs.iter().filter_map(|(name, _)| name.clone()).collect();
            let help = Some(format!("write `{}.{}`", names.join("` or `"), table.name));
            let range = table.range.clone();
            return Err(refuse(text, Code::UnknownStage, message, range, help, environment));
        };
        let stage = own.strip_suffix("__errors").unwrap_or(own);
        let found = run.table(stage);
        let mut loaded = Vec::new();
        if let Some(outcome) = found {
            loaded = tables(store, outcome).await?;
        }
        let wanted = loaded.into_iter().find(|(name, _)| name.as_str() == own);
        let Some((_, provider)) = wanted else {
            let message = format!("run `{}` has no table `{own}`", run.run);
            let names: Vec<String> =
                run.tables().map(|outcome| outcome.stage.to_string()).collect();
            let help = suggest::help(own, names.iter().map(String::as_str));
            let range = table.range.clone();
            return Err(refuse(text, Code::UnknownStage, message, range, help, environment));
        };
        if run.failed.iter().any(|failure| failure.stage == stage) {
            environment.output.remark(format!("the table of `{stage}` failed its checks"));
        }
        named.insert(table.name.clone(), provider as Arc<dyn TableProvider>);
    }
    Ok(named)
}

/// The tables that the query names and that the store has of itself.
async fn of_store(
    query: &Query,
    store: &Store,
    engine: &Engine,
    environment: &Environment,
) -> Result<HashMap<String, Arc<dyn TableProvider>>> {
    let mut wanted = BTreeSet::new();
    for table in query.tables.iter().filter(|table| SystemTable::is_prefixed(&table.name)) {
        let Some(known) = SystemTable::named(&table.name) else {
            let message = format!("there is no system table `{}`", table.name);
            let names = SystemTable::ALL.map(SystemTable::name);
            let help = suggest::help(&table.name, names);
            let range = table.range.clone();
            return Err(refuse(&query.text, Code::UnknownStage, message, range, help, environment));
        };
        wanted.insert(known);
    }
    let tables = system_tables(&wanted, store, engine).await?;
    let provider = |(which, table): (SystemTable, Arc<_>)| {
        (which.name().to_owned(), table as Arc<dyn TableProvider>)
    };
    Ok(tables.into_iter().map(provider).collect())
}

/// Prints a diagnostic of the query with its place to standard error, also where rows are JSON; what remains to be
/// said is short.
fn refuse(
    text: &str,
    code: Code,
    message: String,
    range: std::ops::Range<usize>,
    help: Option<String>,
    environment: &Environment,
) -> Error {
    let mut sources = Sources::default();
    let source = sources.add("query", text);
    let span = Span { source, start: 0, end: text.len() as u32 };
    let node = Node::new(Value::Str(text.to_owned()), span);
    let place = node.place_in_text(&sources, range);
    let diagnostic = Diagnostic::error(code, place, "", message).with_help(help);
    environment.output.warnings(&[diagnostic], &sources);
    Error::new(ErrorKind::Usage, "the query was not run")
}

/// The rows of a query over tables of so many rows; over fewer than a certain number, in the order of the tables.
async fn stream(
    planned: &Planned,
    engine: &Engine,
    input_rows: u64,
) -> Result<Batches, StageError> {
    let state = engine.running(input_rows, None);
    let rows = Operators::of(&planned.plan, &state).await?.stream()?;
    let planned = planned.plan.clone();
    let located = move |error| {
        let (planned, state) = (planned.clone(), state.clone());
        async move { Err(with_row(&planned, error, &state).await.into()) }
    };
    Ok(rows.or_else(located).boxed())
}

/// A query over the given tables, batch by batch; over fewer than a certain number of `input_rows`, in the order
/// of the tables.
pub async fn open(
    text: &str,
    named: HashMap<String, Arc<dyn TableProvider>>,
    engine: &Engine,
    input_rows: u64,
) -> Result<(SchemaRef, Batches)> {
    let failed = |message: String| Error::new(ErrorKind::Usage, message);
    let query = sqltext::parse(text).map_err(|error| failed(error.message))?;
    let planned =
        session::query(engine.planning(), &query, named).map_err(|error| failed(error.message))?;
    let rows = stream(&planned, engine, input_rows).await?;
    Ok((planned.schema, rows))
}

/// As [`open`], with the first `limit` rows in memory.
pub async fn fetch(
    text: &str,
    named: HashMap<String, Arc<dyn TableProvider>>,
    engine: &Engine,
    limit: usize,
    input_rows: u64,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let (schema, rows) = open(text, named, engine, input_rows).await?;
    Ok((schema, Limited::new(rows, Some(limit)).collect().await?))
}
