//! `proofmill sql`

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use serde_json::Value as Json;

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::draw::table::of_batches;
use crate::report::units::count;
use crate::run::history::{RunSummary, tables};
use crate::session::{self, Engine};
use crate::sqltext::{self, SqlErrorKind};
use crate::stages::error::StageError;
use crate::stages::tables::rows::objects;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::is_name;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::node::{Node, Value};
use proofmill_pipeline::source::{Sources, Span};
use proofmill_store::Store;

/// Answers a query over the tables of a run.
pub async fn sql(args: &args::Sql, environment: &Environment) -> Result<()> {
    let mut text = args.query.clone();
    if text == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).map_err(|error| {
            Error::new(ErrorKind::Usage, "standard input cannot be read").with_source(error)
        })?;
    }
    let store = environment.store().await?;
    let runs = runs(&args.runs, &store, environment).await?;
    let named = named_tables(&text, &runs, &store, environment).await?;
    let mut engine = environment.engine(&store, &environment.new_run())?;
    if let Some(pipeline) = args.models.clone() {
        let pipeline = args::Pipeline { pipeline, params: Vec::new() };
        engine = environment.load(&pipeline, &engine).await?.engine;
    }
    let limit = if args.limit == 0 || environment.output.json { usize::MAX } else { args.limit };
    let (schema, batches) = fetch_shown(&text, named, &engine, limit, environment).await?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let output = &environment.output;
    if output.json {
        output.json(&objects(&batches).into_iter().map(Json::Object).collect())?;
        return Ok(());
    }
    output.data(of_batches(&schema, &batches, args.full))?;
    if rows >= limit {
        output.remark(format!("the first {} rows; `--limit 0` prints all", count(rows as u64)));
    }
    Ok(())
}

/// Runs, each with the name that stands before its tables; at most one has none.
type NamedRuns = Vec<(Option<String>, RunSummary)>;

async fn runs(wanted: &[String], store: &Store, environment: &Environment) -> Result<NamedRuns> {
    let mut runs = NamedRuns::new();
    for wanted in wanted {
        let (name, run) = match wanted.split_once('=') {
            Some((name, run)) if is_name(name) => (Some(name.to_owned()), run),
            Some((name, _)) => {
                let message = format!("`{name}` cannot stand before the tables of a run");
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
    text: &str,
    runs: &NamedRuns,
    store: &Store,
    environment: &Environment,
) -> Result<HashMap<String, Arc<dyn TableProvider>>> {
    let query = sqltext::parse(text).map_err(|error| {
        let code = match error.kind {
            SqlErrorKind::Syntax => Code::SqlSyntax,
            SqlErrorKind::NotAllowed => Code::SqlNotAllowed,
            SqlErrorKind::TooLarge => Code::SqlTooLarge,
        };
        refuse(text, code, error.message, error.range, None, environment)
    })?;
    let mut named: HashMap<String, Arc<dyn TableProvider>> = HashMap::new();
    for table in &query.tables {
        let Some((run, own)) = run_of(runs, &table.name) else {
            let message = format!("`{}` does not say of which run it is", table.name);
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

/// Prints a mistake of the query with its place; what remains to be said is short.
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
    let printed = environment.output.diagnostics(&[diagnostic], &sources);
    printed.err().unwrap_or_else(|| Error::new(ErrorKind::Usage, "the query was not run"))
}

async fn fetch_shown(
    text: &str,
    named: HashMap<String, Arc<dyn TableProvider>>,
    engine: &Engine,
    limit: usize,
    environment: &Environment,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    if let Ok(query) = sqltext::parse(text)
        && let Err(error) = session::query(engine.planning(), &query, named.clone())
    {
        return Err(refuse(text, error.code, error.message, error.range, error.help, environment));
    }
    let rows = |table: &Arc<dyn TableProvider>| table.statistics()?.num_rows.get_value().copied();
    let input_rows = named.values().filter_map(rows).sum::<usize>() as u64;
    fetch(text, named, engine, limit, input_rows).await
}

/// The first `limit` rows of a query over the given tables; over fewer than a certain number of
/// `input_rows`, in the order of the tables.
pub async fn fetch(
    text: &str,
    named: HashMap<String, Arc<dyn TableProvider>>,
    engine: &Engine,
    limit: usize,
    input_rows: u64,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let failed = |message: String| Error::new(ErrorKind::Usage, message);
    let query = sqltext::parse(text).map_err(|error| failed(error.message))?;
    let planned =
        session::query(engine.planning(), &query, named).map_err(|error| failed(error.message))?;
    let run = async {
        let state = engine.running(input_rows, None);
        let plan = state.create_physical_plan(&planned.plan).await?;
        let mut stream = execute_stream(plan, state.task_ctx())?;
        let (mut batches, mut rows) = (Vec::new(), 0);
        while rows < limit
            && let Some(batch) = stream.next().await
        {
            let batch = batch?;
            let batch = batch.slice(0, batch.num_rows().min(limit - rows));
            rows += batch.num_rows();
            batches.push(batch);
        }
        Ok::<_, StageError>(batches)
    };
    Ok((planned.schema, run.await?))
}
