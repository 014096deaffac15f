//! The path of an item through a run: the rows that it has in every table behind an answer, whatever the
//! stages are. `docs/specs/audit.md` has the rules.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::stages::queries::sql_kind::{literal, quoted};
use crate::trace::document::{Failure, Question};
use crate::trace::find::{Candidate, resolve};
use crate::trace::read::Reader;
use crate::trace::roles::role;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::sentence::{normalized, normalized_sql};
use proofmill_catalog::lineage::{ITEM_IDS, Lineage, Table, TableId};
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::role::KindRole;

/// Columns that say what an item is about, the first that is there.
const TEXTS: [&str; 5] = ["question", "x", "query", "prompt", "text"];
/// Items of a table that are compared with the requested one.
const CANDIDATES_MAX: usize = 10_000;
/// Rows of an item in one table that leave it.
const ROWS_MAX: usize = 1_000;

/// The path of an item: what `audit trace --json` prints for stages that do not answer with proofs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ItemTrace {
    pub run: String,
    pub pipeline: String,
    pub question: Question,
    /// The stage whose rows are traced.
    pub stage: String,
    pub kind: String,
    pub fingerprint: String,
    /// Tables with rows of the item, in the order of the run; the traced one is last.
    pub steps: Vec<Step>,
    /// Rows of the item that failed.
    pub failures: Vec<Failure>,
}

/// The rows of the item in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    pub stage: String,
    /// Other names of the same table.
    pub same_as: Vec<String>,
    pub kind: String,
    pub fingerprint: String,
    /// The stages whose tables it was made of.
    pub made_of: Vec<String>,
    /// By `rank` where there is one, without vectors; at most 1,000.
    pub rows: Vec<Map<String, Json>>,
    /// All rows of the item in the table.
    pub rows_all: usize,
}

/// Traces the rows of an item: those of the stage `answers`, or else of the table that most `measure` and `compare` stages
/// look at, of several the last, or else of the last table of the run.
///
/// # Errors
///
/// When the item is not there, or several are meant; when a table is lost or damaged.
pub async fn trace(
    wanted: &str,
    answers: Option<TableId>,
    run: &RunSummary,
    lineage: &Lineage,
    reader: &mut Reader<'_>,
) -> Result<ItemTrace> {
    let tables = answers.map_or_else(|| answer_tables(lineage), |id| vec![id]);
    let item = find(wanted, &tables, lineage, reader).await?;
    let mut last = None;
    for id in &tables {
        if !rows(&item.id, lineage.table(*id), reader).await?.0.is_empty() {
            last = Some(*id);
        }
    }
    let Some(last) = last else {
        return Err(no_rows(wanted, &tables, lineage));
    };
    let mut upstream = lineage.upstream(last);
    upstream.sort_unstable();
    let (mut steps, mut failures) = (Vec::new(), Vec::new());
    for id in upstream {
        let table = lineage.table(id);
        failures.extend(reader.failures(table, &item.id).await?);
        let (rows, rows_all) = rows(&item.id, table, reader).await?;
        // A union of a matrix says again what its parts say, and a carried table what the turn before said.
        let repeats = role(table).is_some_and(KindRole::repeats);
        if rows.is_empty() || (repeats && id != last) {
            continue;
        }
        let made_of = lineage.inputs(id).map(|input| lineage.table(input).name().to_owned());
        steps.push(Step {
            stage: table.name().to_owned(),
            same_as: table.stages.iter().skip(1).map(ToString::to_string).collect(),
            kind: table.kind().to_owned(),
            fingerprint: table.artifact.fingerprint.to_string(),
            made_of: made_of.collect::<BTreeSet<_>>().into_iter().collect(),
            rows,
            rows_all,
        });
    }
    let table = lineage.table(last);
    Ok(ItemTrace {
        run: run.run.to_string(),
        pipeline: run.pipeline.clone(),
        question: Question { id: item.id, text: item.text },
        stage: table.name().to_owned(),
        kind: table.kind().to_owned(),
        fingerprint: table.artifact.fingerprint.to_string(),
        steps,
        failures,
    })
}

/// Tables whose rows may be answers, the likeliest last: what is looked at most often.
fn answer_tables(lineage: &Lineage) -> Vec<TableId> {
    let has_items = |id: &TableId| has_ids(lineage.table(*id));
    let results =
        lineage.tables().filter(|(_, table)| role(table).is_some_and(KindRole::is_result));
    let looked = results.flat_map(|(id, _)| lineage.inputs(id)).filter(has_items);
    let mut looks: BTreeMap<TableId, usize> = BTreeMap::new();
    looked.for_each(|id| *looks.entry(id).or_default() += 1);
    if !looks.is_empty() {
        let mut judged: Vec<TableId> = looks.keys().copied().collect();
        judged.sort_by_key(|id| (looks[id], *id));
        return judged;
    }
    let is_summary = |table: &Table| role(table).is_some_and(KindRole::is_summary);
    let all = lineage.tables().filter(|(_, table)| !is_summary(table));
    all.map(|(id, _)| id).filter(has_items).collect()
}

/// The item that is meant: by its id, or by what it is about as far as that is unique.
async fn find(
    wanted: &str,
    tables: &[TableId],
    lineage: &Lineage,
    reader: &mut Reader<'_>,
) -> Result<Candidate> {
    if !tables.iter().any(|id| has_ids(lineage.table(*id))) {
        return Err(no_rows(wanted, tables, lineage));
    }
    let part = literal(&normalized(wanted));
    let mut found = BTreeSet::new();
    // A table that does not tell what its items are about is made of one that does.
    let telling = |id: &TableId| {
        let tells =
            |id: &TableId| text_column(lineage.table(*id)).is_some() && has_ids(lineage.table(*id));
        lineage.upstream(*id).into_iter().find(tells).unwrap_or(*id)
    };
    let tables: BTreeSet<TableId> = tables.iter().flat_map(|id| [*id, telling(id)]).collect();
    for every in [false, true] {
        for table in tables.iter().map(|id| lineage.table(*id)) {
            let Some(id) = ids(table).first().copied() else { continue };
            let text = text_column(table);
            let text = text.map_or_else(|| "CAST(NULL AS VARCHAR)".to_owned(), quoted);
            let condition = match every {
                true => "true".to_owned(),
                false => format!(
                    "{} OR strpos({}, {part}) > 0",
                    is_of(table, wanted),
                    normalized_sql(&text)
                ),
            };
            let sql = format!(
                "SELECT DISTINCT CAST({} AS VARCHAR) AS id, {text} AS text FROM t WHERE {condition} LIMIT {CANDIDATES_MAX}",
                quoted(id)
            );
            for row in reader.rows(table, &sql).await? {
                let text = row.text("text");
                found.extend(row.text("id").map(|id| Candidate { id, text }));
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    // An item has one text for each table that tells one.
    let mut candidates: Vec<Candidate> = found.into_iter().rev().collect();
    candidates.dedup_by(|next, first| next.id == first.id);
    resolve(wanted, &candidates)
}

fn no_rows(wanted: &str, tables: &[TableId], lineage: &Lineage) -> Error {
    let names: Vec<String> =
        tables.iter().map(|id| format!("`{}`", lineage.table(*id).name())).collect();
    let message = match names.as_slice() {
        [] => format!("no stage of the run has rows of `{wanted}`"),
        names => format!("{} has no rows of `{wanted}`", names.join(", ")),
    };
    let hint = "give `--answers` a stage whose rows have one of the columns";
    Error::new(ErrorKind::Usage, message).with_hint(format!("{hint} `{}`", ITEM_IDS.join("`, `")))
}

/// The rows of an item in a table, and how many there are.
async fn rows(
    item: &str,
    table: &Table,
    reader: &mut Reader<'_>,
) -> Result<(Vec<Map<String, Json>>, usize)> {
    if !has_ids(table) {
        return Ok((Vec::new(), 0));
    }
    let columns: Vec<String> = table.readable().into_iter().map(quoted).collect();
    let order = if table.has(&["rank"]) { " ORDER BY rank" } else { "" };
    let condition = is_of(table, item);
    let sql =
        format!("SELECT {} FROM t WHERE {condition}{order} LIMIT {ROWS_MAX}", columns.join(", "));
    let rows: Vec<_> = reader.rows(table, &sql).await?.into_iter().map(|row| row.0).collect();
    if rows.len() < ROWS_MAX {
        let all = rows.len();
        return Ok((rows, all));
    }
    let count =
        reader.rows(table, &format!("SELECT count(*) AS n FROM t WHERE {condition}")).await?;
    let all = count.first().and_then(|row| row.whole("n")).and_then(|n| usize::try_from(n).ok());
    Ok((rows, all.unwrap_or(ROWS_MAX)))
}

/// Whether a row is that of an item.
fn is_of(table: &Table, item: &str) -> String {
    let item = literal(item);
    let of = |id: &&str| format!("CAST({} AS VARCHAR) = {item}", quoted(id));
    ids(table).iter().map(of).collect::<Vec<_>>().join(" OR ")
}

/// The column that says what its items are about.
fn text_column(table: &Table) -> Option<&'static str> {
    TEXTS.into_iter().find(|name| table.texts().contains(name))
}

fn has_ids(table: &Table) -> bool {
    !ids(table).is_empty()
}

/// Its columns that say whose row it is.
fn ids(table: &Table) -> Vec<&'static str> {
    ITEM_IDS.into_iter().filter(|id| table.has(&[id])).collect()
}
