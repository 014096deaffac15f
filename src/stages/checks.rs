//! Checks as queries that count violations.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchema, TableReference};
use serde_json::{Value as Json, json};

use crate::graph::{Role, Stage};
use crate::session::planner::Planned;
use crate::session::{self, Engine, StageTable, execute};
use crate::sqltext;
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::plan::Prepared;
use crate::stages::tables::rows::objects;
use proofmill_pipeline::checks::{Check, CheckSeverity, Rows, Scalar};
use proofmill_pipeline::code::Code;

/// Violating rows that are shown.
const EXAMPLES_MAX: usize = 3;
/// The name of the checked table inside check queries.
const TABLE: &str = "this";

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub check: String,
    pub severity: CheckSeverity,
    /// Violations; for `rows`, how far off the number is.
    pub violations: u64,
    /// What was found, for people.
    pub message: String,
    /// The first rows that violate it, each a JSON object. Not part of a record: which are first may
    /// differ between runs.
    pub examples: Vec<String>,
    /// A query over the tables of the run that gives all of them; `None` where no row is at fault.
    pub query: Option<String>,
}

impl Verdict {
    /// True if the stage must not be used.
    pub fn is_blocking(&self) -> bool {
        self.violations > 0 && self.severity == CheckSeverity::Error
    }

    /// From the artifact's record.
    pub fn from_json(json: &Json) -> Option<Self> {
        Some(Self {
            check: json.get("check")?.as_str()?.to_owned(),
            severity: serde_json::from_value(json.get("severity")?.clone()).ok()?,
            violations: json.get("violations")?.as_u64()?,
            message: json.get("message")?.as_str()?.to_owned(),
            examples: Vec::new(),
            query: None,
        })
    }

    /// For the artifact's record.
    pub fn to_json(&self) -> Json {
        json!({
            "check": self.check,
            "severity": self.severity,
            "violations": self.violations,
            "message": self.message,
        })
    }
}

/// Reports columns and expressions of the checks that do not fit the table. True if one of them calls
/// functions whose value differs between runs, such as `now()`.
pub fn validate(
    stage: &Stage,
    table: &Arc<StageTable>,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> bool {
    let schema = table.schema();
    let mut volatile = false;
    for (i, check) in stage.spec.common.checks.iter().enumerate() {
        let i = i.to_string();
        let columns = [("not_null", &check.not_null), ("unique", &check.unique)];
        for (key, columns) in columns {
            for column in columns.iter().flat_map(|columns| columns.all()) {
                diagnostics.column(&["checks", &i, key], column, &schema);
            }
        }
        if let Some(accepted) = &check.accepted_values {
            let steps = ["checks", &i, "accepted_values", "column"];
            diagnostics.column(&steps, &accepted.column, &schema);
        }
        if let Some(expect) = &check.expect {
            let steps = ["checks", &i, "expect"];
            let name = TableReference::bare(TABLE);
            let Ok(scope) = DFSchema::try_from_qualified_schema(name, &schema) else { continue };
            match session::expression(engine.planning(), expect, &scope) {
                Ok((_, DataType::Boolean | DataType::Null)) => {
                    volatile |= violations(check, TABLE)
                        .and_then(|it| planned(&it.count, table, engine).ok())
                        .is_some_and(|planned| !planned.calls.volatile.is_empty());
                }
                Ok((_, kind)) => {
                    let message = format!("a condition must be a boolean, found {kind}");
                    diagnostics.error(&steps, Code::SqlType, message, None);
                }
                Err(error) => {
                    diagnostics.sql(&steps, error);
                }
            }
        }
    }
    volatile
}

/// Runs the checks of a stage over its filled table.
pub async fn run(
    stage: &Stage,
    table: &Arc<StageTable>,
    prepared: &Prepared,
    engine: &Engine,
) -> Result<Vec<Verdict>, StageError> {
    let mut verdicts = Vec::new();
    for (i, check) in stage.spec.common.checks.iter().enumerate() {
        let (name, violations, message, examples, query) = match &check.rows {
            Some(rows) => {
                let other = stage.input(&Role::Check(i)).and_then(|name| prepared.stages.get(name));
                let other = other.map(|other| other.table.rows());
                let (wanted, off) = row_bounds(rows, table.rows(), other);
                let message = format!("{} rows, expected {wanted}", table.rows());
                ("rows".to_owned(), off, message, Vec::new(), None)
            }
            None => {
                let own = violations(check, stage.spec.name.as_str()).map(|found| found.rows);
                let Some(Violations { check, count, rows }) = violations(check, TABLE) else {
                    continue;
                };
                let found = number(&collected(&count, table, engine).await?)?;
                let examples = match found {
                    0 => Vec::new(),
                    _ => {
                        let first = format!("{rows} LIMIT {EXAMPLES_MAX}");
                        let batches = collected(&first, table, engine).await?;
                        objects(&batches).iter().map(|row| json!(row).to_string()).collect()
                    }
                };
                let message = format!("{found} of {} rows violate it", table.rows());
                (check, found, message, examples, own)
            }
        };
        let severity = check.severity;
        verdicts.push(Verdict { check: name, severity, violations, message, examples, query });
    }
    Ok(verdicts)
}

/// The bounds in words, and by how much `found` misses them.
fn row_bounds(rows: &Rows, found: u64, other: Option<u64>) -> (String, u64) {
    let mut words = Vec::new();
    let mut off = 0;
    for (word, bound, miss) in [
        ("at least", rows.min, rows.min.map_or(0, |bound| bound.saturating_sub(found))),
        ("at most", rows.max, rows.max.map_or(0, |bound| found.saturating_sub(bound))),
        ("exactly", rows.equal, rows.equal.map_or(0, |bound| bound.abs_diff(found))),
        ("as many as its other table:", other, other.map_or(0, |bound| bound.abs_diff(found))),
    ] {
        if let Some(bound) = bound {
            words.push(format!("{word} {bound}"));
            off = off.max(miss);
        }
    }
    (words.join(" and "), off)
}

/// What a check looks for.
struct Violations {
    /// The check in words.
    check: String,
    /// A query that counts its violations.
    count: String,
    /// A query for the rows that violate it; where values are repeated, for the values.
    rows: String,
}

impl Violations {
    fn of_rows(check: String, table: &str, condition: &str) -> Self {
        let count = format!("SELECT count(*) FROM {table} WHERE {condition}");
        Self { check, count, rows: format!("SELECT * FROM {table} WHERE {condition}") }
    }
}

fn violations(check: &Check, table: &str) -> Option<Violations> {
    let quoted = |column: &String| format!("\"{}\"", column.replace('"', "\"\""));
    if let Some(columns) = &check.not_null {
        let any: Vec<_> = columns.all().iter().map(|c| format!("{} IS NULL", quoted(c))).collect();
        let check = format!("not_null {}", columns.all().join(", "));
        return Some(Violations::of_rows(check, table, &any.join(" OR ")));
    }
    if let Some(columns) = &check.unique {
        let names: Vec<_> = columns.all().iter().map(quoted).collect();
        let names = names.join(", ");
        let repeated =
            format!("count(*) AS times_ FROM {table} GROUP BY {names} HAVING count(*) > 1");
        return Some(Violations {
            check: format!("unique {}", columns.all().join(", ")),
            count: format!(
                "SELECT coalesce(sum(times_ - 1), 0) FROM (SELECT {repeated}) AS repeated"
            ),
            rows: format!("SELECT {names}, {repeated}"),
        });
    }
    if let Some(accepted) = &check.accepted_values {
        let column = quoted(&accepted.column);
        let texts = accepted.values.iter().any(|value| matches!(value, Scalar::Text(_)));
        let literal = |value: &Scalar| match texts {
            true => format!("'{}'", value.text().replace('\'', "''")),
            false => value.text(),
        };
        let values: Vec<_> = accepted.values.iter().map(literal).collect();
        let shown = if texts { format!("arrow_cast({column}, 'Utf8')") } else { column.clone() };
        let condition = format!("{column} IS NOT NULL AND {shown} NOT IN ({})", values.join(", "));
        let check = format!("accepted_values {}", accepted.column);
        return Some(Violations::of_rows(check, table, &condition));
    }
    let expect = check.expect.as_ref()?;
    let check = format!("expect {}", expect.trim());
    Some(Violations::of_rows(check, table, &format!("({expect}\n) IS NOT TRUE")))
}

/// A query over the checked table, planned.
fn planned(sql: &str, table: &Arc<StageTable>, engine: &Engine) -> Result<Planned, String> {
    let query = sqltext::parse(sql).map_err(|error| error.message)?;
    let provider = Arc::clone(table) as Arc<dyn TableProvider>;
    let tables = HashMap::from([(TABLE.to_owned(), provider)]);
    session::query(engine.planning(), &query, tables).map_err(|error| error.message)
}

async fn collected(
    sql: &str,
    table: &Arc<StageTable>,
    engine: &Engine,
) -> Result<Vec<RecordBatch>, StageError> {
    let failed = |message: String| StageError::Data {
        message: format!("a check cannot be computed: {message}"),
        help: "compute what it needs in a stage of its own".to_owned(),
    };
    let planned = planned(sql, table, engine).map_err(failed)?;
    let state = engine.running(table.rows(), None);
    Ok(execute::collected(&planned.plan, &state).await?)
}

/// The one number that a query gave.
fn number(batches: &[RecordBatch]) -> Result<u64, StageError> {
    let count = batches.first().map(|batch| cast(batch.column(0), &DataType::Int64)).transpose()?;
    let count = count.and_then(|array| {
        let array = array.as_any().downcast_ref::<Int64Array>()?;
        (!array.is_empty()).then(|| array.value(0))
    });
    Ok(count.unwrap_or(0).max(0) as u64)
}
