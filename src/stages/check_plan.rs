//! Checks as queries that count violations.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchema, TableReference};
use datafusion::physical_plan::collect;
use serde_json::{Value as Json, json};

use crate::graph::{Role, Stage};
use crate::session::planner::Planned;
use crate::session::{self, Engine, StageTable};
use proofmill_pipeline::checks::{Check, CheckSeverity, Rows, Scalar};
use proofmill_pipeline::code::Code;
use crate::sqltext;
use crate::stages::error::StageError;
use crate::stages::place::Place;
use crate::stages::prepared::Prepared;

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
    place: &mut Place<'_>,
) -> bool {
    let schema = table.schema();
    let mut volatile = false;
    for (i, check) in stage.spec.common.checks.iter().enumerate() {
        let i = i.to_string();
        let columns = [("not_null", &check.not_null), ("unique", &check.unique)];
        for (key, columns) in columns {
            for column in columns.iter().flat_map(|columns| columns.all()) {
                place.column(&["checks", &i, key], column, &schema);
            }
        }
        if let Some(accepted) = &check.accepted_values {
            let steps = ["checks", &i, "accepted_values", "column"];
            place.column(&steps, &accepted.column, &schema);
        }
        if let Some(expect) = &check.expect {
            let steps = ["checks", &i, "expect"];
            let name = TableReference::bare(TABLE);
            let Ok(scope) = DFSchema::try_from_qualified_schema(name, &schema) else { continue };
            match session::expression(engine.planning(), expect, &scope) {
                Ok((_, DataType::Boolean | DataType::Null)) => {
                    volatile |= violations_sql(check)
                        .and_then(|(_, sql)| planned(&sql, table, engine).ok())
                        .is_some_and(|planned| !planned.calls.volatile.is_empty());
                }
                Ok((_, kind)) => {
                    let message = format!("this is {kind}, and a condition is true or false");
                    place.mistake(&steps, Code::SqlType, message, None);
                }
                Err(error) => {
                    place.sql(&steps, error);
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
        let (name, violations, message) = match &check.rows {
            Some(rows) => {
                let other = stage.input(&Role::Check(i)).and_then(|name| prepared.stages.get(name));
                let other = other.map(|other| other.table.rows());
                let (wanted, off) = row_bounds(rows, table.rows(), other);
                ("rows".to_owned(), off, format!("{} rows, expected {wanted}", table.rows()))
            }
            None => {
                let Some((name, sql)) = violations_sql(check) else { continue };
                let violations = count(&sql, table, engine).await?;
                (name, violations, format!("{violations} of {} rows violate it", table.rows()))
            }
        };
        verdicts.push(Verdict { check: name, severity: check.severity, violations, message });
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

/// The check in words, and a query that counts its violations.
fn violations_sql(check: &Check) -> Option<(String, String)> {
    let quoted = |column: &String| format!("\"{}\"", column.replace('"', "\"\""));
    if let Some(columns) = &check.not_null {
        let any: Vec<_> = columns.all().iter().map(|c| format!("{} IS NULL", quoted(c))).collect();
        let sql = format!("SELECT count(*) FROM {TABLE} WHERE {}", any.join(" OR "));
        return Some((format!("not_null {}", columns.all().join(", ")), sql));
    }
    if let Some(columns) = &check.unique {
        let names: Vec<_> = columns.all().iter().map(quoted).collect();
        let sql = format!(
            "SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM {TABLE} \
             GROUP BY {} HAVING count(*) > 1) AS repeated",
            names.join(", ")
        );
        return Some((format!("unique {}", columns.all().join(", ")), sql));
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
        let sql = format!(
            "SELECT count(*) FROM {TABLE} WHERE {column} IS NOT NULL AND {shown} NOT IN ({})",
            values.join(", ")
        );
        return Some((format!("accepted_values {}", accepted.column), sql));
    }
    let expect = check.expect.as_ref()?;
    let sql = format!("SELECT count(*) FROM {TABLE} WHERE ({expect}\n) IS NOT TRUE");
    Some((format!("expect {}", expect.trim()), sql))
}

/// A query over the checked table, planned.
fn planned(sql: &str, table: &Arc<StageTable>, engine: &Engine) -> Result<Planned, String> {
    let query = sqltext::parse(sql).map_err(|error| error.message)?;
    let provider = Arc::clone(table) as Arc<dyn TableProvider>;
    let tables = HashMap::from([(TABLE.to_owned(), provider)]);
    session::query(engine.planning(), &query, tables).map_err(|error| error.message)
}

async fn count(sql: &str, table: &Arc<StageTable>, engine: &Engine) -> Result<u64, StageError> {
    let failed = |message: String| StageError::Data {
        message: format!("a check cannot be computed: {message}"),
        help: "compute what it needs in a stage of its own".to_owned(),
    };
    let planned = planned(sql, table, engine).map_err(failed)?;
    let state = engine.running(table.rows(), None);
    let plan = state.create_physical_plan(&planned.plan).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    let count = batches.first().map(|batch| cast(batch.column(0), &DataType::Int64)).transpose()?;
    let count = count.and_then(|array| {
        let array = array.as_any().downcast_ref::<Int64Array>()?;
        (!array.is_empty()).then(|| array.value(0))
    });
    Ok(count.unwrap_or(0).max(0) as u64)
}
