//! `tests:` of a pipeline: given rows in, expected rows out, in a store in memory.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use futures::TryStreamExt;
use serde_json::{Map, Value as Json};

use crate::graph::select::upstream;
use crate::session::{Content, Stored};
use crate::stages::load::Loaded;
use crate::stages::plan::{Execution, Prepared};
use crate::stages::progress::Progress;
use crate::stages::sink::{Permit, Sink};
use crate::stages::tables::rows;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{RunId, StageName};
use proofmill_base::suggest;
use proofmill_pipeline::testcase::{Row, TestCase};
use proofmill_store::{Attempt, Store};

/// Differences that a failed test shows.
const DIFFERENCES_SHOWN: usize = 5;

/// How a test ended.
#[derive(Clone, Debug)]
pub struct TestVerdict {
    pub name: String,
    /// Differences, each as a line; none if it passed.
    pub differences: Vec<String>,
}

/// Runs test `number` of a freshly loaded pipeline, which it uses up. A stage that fails is a
/// difference.
pub async fn run(loaded: Loaded, number: usize, store: &Store, cache: &Path) -> TestVerdict {
    let tests = loaded.prepared.as_ref().map(|prepared| &prepared.graph.pipeline.tests);
    let name = tests.map_or_else(String::new, |tests| tests[number].0.name.clone());
    let differences = match differences(loaded, number, store, cache).await {
        Ok(differences) => differences,
        Err(error) => vec![error.to_string()],
    };
    TestVerdict { name, differences }
}

async fn differences(
    loaded: Loaded,
    number: usize,
    store: &Store,
    cache: &Path,
) -> Result<Vec<String>> {
    let engine = &loaded.engine;
    let Some(prepared) = loaded.prepared else {
        return Err(Error::new(ErrorKind::Pipeline, "the pipeline has errors"));
    };
    let case = prepared.graph.pipeline.tests[number].0.clone();
    give(&prepared, &case)?;
    let expected: Vec<StageName> =
        case.expect.keys().map(|name| known(&prepared, name)).collect::<Result<_>>()?;
    let needed = needed(&prepared, &expected);
    let run = RunId::new(store.clock().now(), store.rng().as_ref());
    for (name, stage) in &prepared.stages {
        if stage.table.stored().is_some() || !needed.contains(name) {
            continue;
        }
        let sink = Sink {
            store: store.clone(),
            run: run.clone(),
            stage: name.clone(),
            attempt: Attempt::new(store.rng().as_ref()),
            schema: stage.table.schema(),
            progress: Arc::new(Progress::default()),
            permit: Permit::default(),
        };
        let computed = stage
            .plan
            .compute(&Execution { stage, prepared: &prepared, engine, sink: &sink, cache })
            .await
            .map_err(|error| crate::run::attempt::named(name, error))?;
        let name = Digest::of(format!("{number} {name} {}", sink.attempt).as_bytes());
        stage.table.fill(Stored {
            rows: computed.parts.iter().map(|part| part.rows).sum(),
            content: Content::Parts(computed.parts),
            files: computed.files,
            snapshot: name.short(),
            digest: name,
        });
    }
    let mut differences = Vec::new();
    for (name, wanted) in &case.expect {
        let stage = &prepared.stages[&known(&prepared, name)?];
        let found: Vec<RecordBatch> = rows::of_table(&stage.table, store).try_collect().await?;
        let found = json_rows(&found)?;
        differences.extend(compare(name, wanted, &found, case.tolerance));
    }
    Ok(differences)
}

/// The stages that must run: what is expected, and what that needs, up to what is given.
fn needed(prepared: &Prepared, expected: &[StageName]) -> HashSet<StageName> {
    let mut needed: HashSet<StageName> = expected.iter().cloned().collect();
    for (name, stage) in prepared.stages.iter().rev() {
        if needed.contains(name) && stage.table.stored().is_none() {
            needed.extend(stage.stage.inputs.iter().map(|input| input.stage.clone()));
        }
    }
    debug_assert!(needed.is_subset(&upstream(&prepared.graph, expected.iter().cloned())));
    needed
}

fn known(prepared: &Prepared, name: &str) -> Result<StageName> {
    let found = prepared.stages.keys().find(|stage| stage.as_str() == name).cloned();
    found.ok_or_else(|| {
        let help = suggest::help(name, prepared.stages.keys().map(StageName::as_str));
        let error =
            Error::new(ErrorKind::Pipeline, format!("a test names the unknown stage `{name}`"));
        help.into_iter().fold(error, Error::with_hint)
    })
}

/// Fills the tables of the given stages.
fn give(prepared: &Prepared, case: &TestCase) -> Result<()> {
    for (name, rows) in &case.given {
        let name = known(prepared, name)?;
        let table = &prepared.stages[&name].table;
        let batch = batch(&name, rows, &table.schema())?;
        table.fill(Stored {
            rows: batch.num_rows() as u64,
            content: Content::Memory(vec![batch]),
            files: Vec::new(),
            snapshot: Digest::of(name.as_str().as_bytes()).short(),
            digest: Digest::of(name.as_str().as_bytes()),
        });
    }
    Ok(())
}

/// The given rows as a table of `schema`.
fn batch(name: &StageName, rows: &[Row], schema: &SchemaRef) -> Result<RecordBatch> {
    let failed = |message: String| {
        Error::new(
            ErrorKind::Pipeline,
            format!("the rows given for `{name}` do not fit: {message}"),
        )
    };
    for row in rows {
        if let Some(column) = row.keys().find(|column| schema.index_of(column).is_err()) {
            let names = schema.fields().iter().map(|field| field.name().as_str());
            let error = failed(format!("it has no column `{column}`"));
            return Err(suggest::help(column, names).into_iter().fold(error, Error::with_hint));
        }
    }
    if rows.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let rows: Vec<Row> = rows.iter().map(|row| completed(row, schema)).collect();
    let mut decoder = arrow::json::ReaderBuilder::new(Arc::clone(schema))
        .with_coerce_primitive(true)
        .build_decoder()
        .map_err(|error| failed(error.to_string()))?;
    decoder.serialize(&rows).map_err(|error| failed(error.to_string()))?;
    let batch = decoder.flush().map_err(|error| failed(error.to_string()))?;
    batch.ok_or_else(|| failed("there are no rows".to_owned()))
}

/// The row with an empty value in each column that the row leaves out and that is never NULL.
fn completed(row: &Row, schema: &SchemaRef) -> Row {
    let mut row = row.clone();
    for field in schema.fields().iter().filter(|field| !field.is_nullable()) {
        row.entry(field.name()).or_insert_with(|| match field.data_type() {
            DataType::Boolean => Json::from(false),
            kind if kind.is_numeric() => Json::from(0),
            DataType::List(_) | DataType::LargeList(_) => Json::Array(Vec::new()),
            DataType::Struct(_) => Json::Object(Map::new()),
            _ => Json::from(""),
        });
    }
    row
}

fn json_rows(batches: &[RecordBatch]) -> Result<Vec<Row>> {
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, arrow::json::writer::JsonArray>(Vec::new());
    let all: Vec<&RecordBatch> = batches.iter().collect();
    writer
        .write_batches(&all)
        .and_then(|()| writer.finish())
        .map_err(|error| Error::new(ErrorKind::Stage, error.to_string()))?;
    Ok(serde_json::from_slice(&writer.into_inner()).unwrap_or_default())
}

/// The rows that only one side has, looking at the columns that the expected rows name.
fn compare(stage: &str, wanted: &[Row], found: &[Row], tolerance: f64) -> Vec<String> {
    let mut left: Vec<&Row> = found.iter().collect();
    let mut lines = Vec::new();
    for row in wanted {
        match left.iter().position(|found| fits(row, found, tolerance)) {
            Some(i) => drop(left.swap_remove(i)),
            None => lines.push(format!("{stage}: missing    {}", Json::Object(row.clone()))),
        }
    }
    let columns: HashSet<&String> = wanted.iter().flat_map(Map::keys).collect();
    let shown = |row: &Row| -> Map<String, Json> {
        let wanted = |(k, _): &(&String, &Json)| columns.is_empty() || columns.contains(k);
        row.iter().filter(wanted).map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    lines
        .extend(left.iter().map(|row| format!("{stage}: unexpected {}", Json::Object(shown(row)))));
    let more = lines.len().saturating_sub(DIFFERENCES_SHOWN);
    lines.truncate(DIFFERENCES_SHOWN);
    if more > 0 {
        lines.push(format!("{stage}: and {more} more"));
    }
    lines
}

fn fits(wanted: &Row, found: &Row, tolerance: f64) -> bool {
    wanted.iter().all(|(column, value)| {
        found.get(column).is_some_and(|found| equal(value, found, tolerance))
    })
}

fn equal(a: &Json, b: &Json, tolerance: f64) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= tolerance,
            _ => a == b,
        },
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b, tolerance))
        }
        (Json::Object(a), Json::Object(b)) => fits(a, b, tolerance) && a.len() == b.len(),
        _ => a == b,
    }
}
