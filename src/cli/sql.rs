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
use proofmill_base::error::{Error, ErrorKind, Result};
use crate::report::units::count;
use crate::run::history::{RunSummary, tables};
use crate::run::publish::objects;
use crate::session::{self, Engine};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::node::{Node, Value};
use proofmill_pipeline::source::{Sources, Span};
use proofmill_base::suggest;
use crate::sqltext::{self, SqlErrorKind};
use crate::stages::error::StageError;
use proofmill_store::{StageOutcome, Store};

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
    let run = environment.run(&store, Some(&args.run)).await?;
    let named = named_tables(&text, &run, &store, environment).await?;
    let mut engine = environment.engine(&store, &environment.new_run())?;
    if let Some(pipeline) = args.models.clone() {
        let pipeline = args::Pipeline { pipeline, params: Vec::new() };
        engine = environment.load(&pipeline, &engine)?.engine;
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

/// The tables that the query names, of one run.
async fn named_tables(
    text: &str,
    run: &RunSummary,
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
        let stage = table.name.strip_suffix("__errors").unwrap_or(&table.name);
        let found = run.stages.iter().find(|outcome| outcome.stage.as_str() == stage);
        let mut loaded = Vec::new();
        if let Some(outcome) = found {
            loaded = tables(store, outcome).await?;
        }
        let wanted = loaded.into_iter().find(|(name, _)| name.as_str() == table.name);
        let Some((name, provider)) = wanted else {
            let message = format!("run `{}` has no table `{}`", run.run, table.name);
            let names: Vec<String> =
                run.stages.iter().map(|outcome: &StageOutcome| outcome.stage.to_string()).collect();
            let help = suggest::help(&table.name, names.iter().map(String::as_str));
            let range = table.range.clone();
            return Err(refuse(text, Code::UnknownStage, message, range, help, environment));
        };
        named.insert(name.to_string(), provider as Arc<dyn TableProvider>);
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
