//! Rows of one table in two runs: how many changed, in which columns, and the first of them with both values.

use datafusion::catalog::TableProvider;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::diff::pair::{TablePair, count_at};
use crate::session::Engine;
use crate::stages::queries::sql_kind::quoted;
use crate::stages::tables::query::rows_of;
use crate::stages::tables::rows::objects;
use proofmill_base::error::Result;

/// What changed in the rows of a table.
#[derive(Clone, Debug, Serialize)]
pub struct RowsDiff {
    pub stage: String,
    /// Columns that identify a row.
    pub on: Vec<String>,
    pub both: u64,
    /// Rows in both that differ in a column.
    pub changed: u64,
    pub only_a: u64,
    pub only_b: u64,
    /// Columns with the number of rows in which they differ.
    pub columns: Vec<(String, u64)>,
    /// Columns that only one run has, or that have another type.
    pub not_compared: Vec<String>,
    /// The first rows that differ, in the order of their keys.
    pub rows: Vec<ChangedRow>,
}

/// A row that differs.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedRow {
    pub key: Vec<Json>,
    /// Its values in the first run, by column; `None` if it is not there.
    pub a: Option<Map<String, Json>>,
    pub b: Option<Map<String, Json>>,
}

impl ChangedRow {
    /// The columns that differ; all if only one run has the row.
    pub fn changed(&self) -> Vec<&String> {
        let columns = self.a.as_ref().or(self.b.as_ref()).into_iter().flat_map(Map::keys);
        let value = |side: &Option<Map<String, Json>>, column: &String| {
            side.as_ref().and_then(|row| row.get(column).cloned())
        };
        columns.filter(|column| value(&self.a, column) != value(&self.b, column)).collect()
    }
}

impl TablePair {
    /// Compares the rows by the columns `on`; keeps the first `limit` that differ. Columns `ignored` do not count.
    ///
    /// # Errors
    ///
    /// When the tables cannot be read.
    pub async fn diff(
        &self,
        on: &[String],
        ignored: &[String],
        limit: usize,
        engine: &Engine,
    ) -> Result<RowsDiff> {
        let mut columns = self.shared(ignored);
        // What identifies a row is no value of it.
        columns.retain(|column| !on.contains(column) && column != "row_id");
        let numbered = |names: &[String], prefix: &str| -> String {
            let names = names.iter().enumerate();
            names.map(|(i, name)| format!("{} AS {prefix}{i}, ", quoted(name))).collect()
        };
        let (keys, values) = (numbered(on, "k"), numbered(&columns, "c"));
        let side = |name: &str| format!("(SELECT {keys}{values}true AS here FROM {name})");
        let equal: Vec<String> =
            (0..on.len()).map(|i| format!("(l.k{i} IS NOT DISTINCT FROM r.k{i})")).collect();
        let joined =
            format!("{} AS l FULL JOIN {} AS r ON {}", side("a"), side("b"), equal.join(" AND "));
        let differs: Vec<String> =
            (0..columns.len()).map(|i| format!("(l.c{i} IS DISTINCT FROM r.c{i})")).collect();
        let any = if differs.is_empty() { "false".to_owned() } else { differs.join(" OR ") };
        let both = "l.here IS NOT NULL AND r.here IS NOT NULL";
        let counted = |condition: &str| format!("count(*) FILTER (WHERE {condition})");
        let mut counts = vec![
            counted(both),
            counted(&format!("{both} AND ({any})")),
            counted("r.here IS NULL"),
            counted("l.here IS NULL"),
        ];
        counts.extend(differs.iter().map(|one| counted(&format!("{both} AND {one}"))));
        let counts = counts.iter().enumerate().map(|(i, count)| format!("{count} AS n{i}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let tables = [("a", &self.a), ("b", &self.b)];
        let (_, found) =
            rows_of(&format!("SELECT {counts} FROM {joined}"), &tables, engine).await?;
        let number = |i: usize| found.first().map_or(0, |row| count_at(row, i));
        let by_column = columns.iter().enumerate().map(|(i, name)| (name.clone(), number(4 + i)));
        Ok(RowsDiff {
            stage: self.stage.clone(),
            on: on.to_vec(),
            both: number(0),
            changed: number(1),
            only_a: number(2),
            only_b: number(3),
            columns: by_column.filter(|(_, n)| *n > 0).collect(),
            not_compared: self.not_shared(ignored),
            rows: match limit {
                0 => Vec::new(),
                _ => self.first(&joined, &any, (on, &columns), limit, engine).await?,
            },
        })
    }

    fn not_shared(&self, ignored: &[String]) -> Vec<String> {
        let shared = self.shared(&[]);
        let mut names: Vec<String> = Vec::new();
        for schema in [self.a.schema(), self.b.schema()] {
            names.extend(schema.fields().iter().map(|field| field.name().clone()));
        }
        names.retain(|name| !shared.contains(name) && !ignored.contains(name));
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn first(
        &self,
        joined: &str,
        differs: &str,
        (on, columns): (&[String], &[String]),
        limit: usize,
        engine: &Engine,
    ) -> Result<Vec<ChangedRow>> {
        let key = |i: usize| format!("coalesce(l.k{i}, r.k{i})");
        let mut wanted: Vec<String> =
            (0..on.len()).map(|i| format!("{} AS k{i}", key(i))).collect();
        for side in ["l", "r"] {
            wanted.push(format!("{side}.here AS {side}_here"));
            wanted.extend((0..columns.len()).map(|i| format!("{side}.c{i} AS {side}{i}")));
        }
        let order: Vec<String> = (0..on.len()).map(key).collect();
        let sql = format!(
            "SELECT {} FROM {joined} WHERE l.here IS NULL OR r.here IS NULL OR {differs} \
             ORDER BY {} LIMIT {limit}",
            wanted.join(", "),
            order.join(", ")
        );
        let (_, found) = rows_of(&sql, &[("a", &self.a), ("b", &self.b)], engine).await?;
        let value =
            |row: &Map<String, Json>, name: String| row.get(&name).cloned().unwrap_or_default();
        let side = |row: &Map<String, Json>, side: &str| {
            let here = value(row, format!("{side}_here")) == Json::Bool(true);
            let columns = columns.iter().enumerate();
            here.then(|| {
                columns.map(|(i, name)| (name.clone(), value(row, format!("{side}{i}")))).collect()
            })
        };
        let changed = |row: Map<String, Json>| ChangedRow {
            key: (0..on.len()).map(|i| value(&row, format!("k{i}"))).collect(),
            a: side(&row, "l"),
            b: side(&row, "r"),
        };
        Ok(objects(&found).into_iter().map(changed).collect())
    }
}
