//! By which columns rows of two runs are paired: those that the user names, else those that the stages of the runs name, else those that are called
//! like a key. Which other columns happen to tell rows apart is advice and no answer: a latency does too.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::catalog::TableProvider;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_pipeline::checks::Check;
use proofmill_pipeline::role::KindRole;
use proofmill_store::{Artifact, Store};

use crate::diff::runs::Side;
use crate::run::bind::tables_of;
use crate::session::{Engine, StageTable};
use crate::stages::queries::sql_kind::quoted;
use crate::stages::tables::query::rows_of;

/// Names of columns that identify a row, the likeliest first; `…_id` comes behind them.
const CALLED: [&str; 3] = ["id", "key", "row_id"];

/// Columns that are tried for advice.
const CANDIDATES_MAX: usize = 8;

/// A table of two runs.
#[derive(Clone)]
pub struct TablePair {
    pub stage: String,
    pub a: Arc<StageTable>,
    pub b: Arc<StageTable>,
    /// Keys of the table, as the stages of its runs name them.
    pub keys: Vec<Vec<String>>,
}

/// Keys of the table of `record`: its checks `unique`, and what stages call the identity of its rows, itself and those that read it.
fn named(side: &Side, record: &Artifact) -> Vec<Vec<String>> {
    let checks = record.checks.iter().filter_map(|check| {
        let check: Check = serde_json::from_value(check.get("definition")?.clone()).ok()?;
        Some(check.unique?.all().to_vec())
    });
    let fingerprint = record.fingerprint.to_string();
    let reads = |reader: &&Artifact| {
        let mut inputs = reader.components.iter().filter(|(name, _)| name.starts_with("input."));
        inputs.any(|(_, input)| *input == fingerprint)
    };
    let readers = side.stages.values().map(|(_, found)| found.record.as_ref()).filter(reads);
    let settings = [record].into_iter().chain(readers).filter_map(setting);
    checks.chain(result(record)).chain(settings).collect()
}

/// The columns that identify a row of what `measure` and `compare` give.
fn result(record: &Artifact) -> Option<Vec<String>> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match KindRole::of(&record.kind) {
        Some(KindRole::Metrics) => Some([by(record), names(&["name"])].concat()),
        Some(KindRole::Comparison) => Some(names(&["metric", "baseline", "candidate"])),
        _ => None,
    }
}

/// The columns that split the table of a `measure`.
pub fn by(record: &Artifact) -> Vec<String> {
    let column = |i: usize| record.components.get(&format!("settings.by[{i}]")).cloned();
    (0..).map_while(column).collect()
}

/// The columns that the settings of a stage name as the identity of a row.
fn setting(record: &Artifact) -> Option<Vec<String>> {
    let of = |name: &str| record.components.get(&format!("settings.{name}")).cloned();
    if let Some(id) = of("id") {
        return Some(vec![id]);
    }
    let several = || (0..).map_while(|i| of(&format!("key[{i}]"))).collect();
    let mut key: Vec<String> = of("key").map_or_else(several, |key| vec![key]);
    if key.is_empty() {
        return None;
    }
    key.extend(["systems", "reruns"].into_iter().filter_map(of));
    Some(key)
}

impl TablePair {
    /// The table of a stage that has the `records` in two runs; `None` unless both have rows.
    ///
    /// # Errors
    ///
    /// When one is lost or damaged.
    pub async fn of(
        stage: &str,
        sides: [&Side; 2],
        records: [&Artifact; 2],
        store: &Store,
    ) -> Result<Option<Self>> {
        let tables = (table_of(records[0], store).await?, table_of(records[1], store).await?);
        let (Some(a), Some(b)) = tables else { return Ok(None) };
        let keys = sides.into_iter().zip(records).flat_map(|(side, record)| named(side, record));
        Ok(Some(Self { stage: stage.to_owned(), a, b, keys: keys.collect() }))
    }

    /// The columns that identify a row in both runs: those `wanted`, else the first [named](Self::keys) or
    /// called like a key that do; of these, the first by which some rows are in both runs.
    ///
    /// # Errors
    ///
    /// If those wanted are not there or do not identify rows, or none do.
    pub async fn key(&self, wanted: &[String], engine: &Engine) -> Result<Vec<String>> {
        let shared = self.shared(&[]);
        if wanted.is_empty() {
            let known = |key: &Vec<String>| key.iter().all(|column| shared.contains(column));
            let named = self.keys.iter().filter(|key| known(key)).cloned();
            let called = self.called(&shared).into_iter().map(|column| vec![column]);
            return match self.first_of(named.chain(called), engine).await? {
                Some(key) => Ok(key),
                None => Err(self.unknown(engine).await?),
            };
        }
        let usage = |message: String, help: String| {
            Err(Error::new(ErrorKind::Usage, message).with_hint(help))
        };
        for column in wanted {
            if !shared.contains(column) {
                let message = format!("`{}` has no column `{column}` in both runs", self.stage);
                let help = suggest::help(column, shared.iter().map(String::as_str));
                return usage(message, help.unwrap_or_else(|| "see `proofmill show`".to_owned()));
            }
        }
        for (name, table) in [("first", &self.a), ("second", &self.b)] {
            if !identifies(table, wanted, engine).await? {
                let on = wanted.join("`, `");
                let message = format!(
                    "in the {name} run, several rows of `{}` have the same `{on}`",
                    self.stage
                );
                return usage(message, "add a column to `--on`".to_owned());
            }
        }
        Ok(wanted.to_vec())
    }

    /// Shared columns of texts or whole numbers that are called like a key.
    fn called(&self, shared: &[String]) -> Vec<String> {
        let exact = CALLED.into_iter().map(str::to_owned);
        let similar = shared.iter().filter(|column| column.ends_with("_id")).cloned();
        let plain = self.plain(shared);
        exact.chain(similar).filter(|column| plain.contains(column)).collect()
    }

    fn plain(&self, shared: &[String]) -> Vec<String> {
        let schema = self.a.schema();
        let is_plain = |column: &&String| {
            schema.field_with_name(column).is_ok_and(|field| {
                let kind = field.data_type();
                kind.is_integer() || kind.is_string()
            })
        };
        shared.iter().filter(is_plain).cloned().collect()
    }

    /// What is said where no key is known: with the columns that would do, if there are any.
    async fn unknown(&self, engine: &Engine) -> Result<Error> {
        let mut candidates = self.plain(&self.shared(&[]));
        candidates.truncate(CANDIDATES_MAX);
        let single = candidates.iter().map(|column| vec![column.clone()]);
        let pairs = candidates.iter().enumerate().flat_map(|(i, first)| {
            let rest = &candidates[i + 1..];
            rest.iter().map(move |second| vec![first.clone(), second.clone()])
        });
        let message = format!("the columns that identify a row of `{}` are unknown", self.stage);
        let help = match self.first_of(single.chain(pairs), engine).await? {
            Some(key) => {
                format!("name them with `--on` or a check `unique`; `{}` is unique", key.join(","))
            }
            None => "no two of its columns are enough; name those that are with `--on`".to_owned(),
        };
        Ok(Error::new(ErrorKind::Usage, message).with_hint(help))
    }

    /// The first of the keys by which some rows are in both runs, else the first that identifies rows.
    async fn first_of(
        &self,
        keys: impl Iterator<Item = Vec<String>>,
        engine: &Engine,
    ) -> Result<Option<Vec<String>>> {
        // A `row_id` may hold the digest of a source: it identifies rows, and never one of another source.
        let mut of_no_pair = None;
        for key in keys {
            if identifies(&self.a, &key, engine).await? && identifies(&self.b, &key, engine).await?
            {
                if self.has_pairs(&key, engine).await? {
                    return Ok(Some(key));
                }
                of_no_pair.get_or_insert(key);
            }
        }
        Ok(of_no_pair)
    }

    /// Columns that both runs have with the same type, in their order, without those ignored.
    pub(super) fn shared(&self, ignored: &[String]) -> Vec<String> {
        let (a, b) = (self.a.schema(), self.b.schema());
        let fits = |name: &String| {
            let other = b.field_with_name(name).ok();
            let own = a.field_with_name(name).ok();
            !ignored.contains(name) && own.map(|f| f.data_type()) == other.map(|f| f.data_type())
        };
        a.fields().iter().map(|field| field.name().clone()).filter(fits).collect()
    }

    /// Whether some row is in both tables.
    async fn has_pairs(&self, key: &[String], engine: &Engine) -> Result<bool> {
        let names: Vec<String> = key.iter().map(|name| quoted(name)).collect();
        let names = names.join(", ");
        let sql = format!(
            "SELECT count(*) AS n FROM (SELECT {names} FROM a INTERSECT SELECT {names} FROM b)"
        );
        let (_, found) = rows_of(&sql, &[("a", &self.a), ("b", &self.b)], engine).await?;
        Ok(found.first().map_or(0, |row| count_at(row, 0)) > 0)
    }
}

/// Whether no two rows share the values of `columns`, and none of these is NULL.
async fn identifies(table: &Arc<StageTable>, columns: &[String], engine: &Engine) -> Result<bool> {
    let names: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let some: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
    let sql = format!(
        "SELECT count(*) AS n FROM (SELECT DISTINCT {} FROM t WHERE {})",
        names.join(", "),
        some.join(" AND ")
    );
    let (_, found) = rows_of(&sql, &[("t", table)], engine).await?;
    Ok(found.first().map_or(0, |row| count_at(row, 0)) == table.rows())
}

/// A number of a query that gives one row of counts.
pub(super) fn count_at(row: &RecordBatch, column: usize) -> u64 {
    let counts = row.column(column).as_primitive_opt::<Int64Type>();
    counts.filter(|counts| !counts.is_empty()).map_or(0, |counts| counts.value(0).unsigned_abs())
}

pub async fn table_of(record: &Artifact, store: &Store) -> Result<Option<Arc<StageTable>>> {
    let tables = tables_of(store, &record.stage, record).await?;
    Ok(tables.into_iter().next().map(|(_, table)| table))
}
