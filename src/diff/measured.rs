//! The rows behind the metrics of a `measure`: what the record of the stage says that it counts, row by row.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use proofmill_base::error::Result;
use proofmill_pipeline::kinds::statistics::{ACCURACY, Interval};
use proofmill_store::Artifact;

use crate::diff::pair::by;
use crate::diff::runs::Side;
use crate::session::{Engine, StageTable};
use crate::stages::queries::sql_kind::quoted;
use crate::stages::tables::query::TextsAndNumbers;
use crate::stages::tables::values::{Key, text_at};

/// The column that identifies rows of sources, and what was made of them.
const ROW_ID: &str = "row_id";

/// What a `measure` counts.
pub(super) struct Measured {
    pub by: Vec<String>,
    pub cluster: Option<String>,
    exclude: Option<String>,
    /// Names with their expressions.
    pub metrics: Vec<(String, String)>,
    pub ci: Interval,
}

/// A row that was measured.
pub(super) struct Row {
    /// Values of the columns that split the table.
    pub group: Key,
    pub key: Key,
    pub cluster: Option<String>,
    /// Its identity, by which failed rows are called; none where the table has none.
    pub row_id: Option<String>,
    /// By metric.
    pub values: Vec<Option<f64>>,
    /// Whether it is left out.
    pub is_excluded: bool,
}

impl Measured {
    /// What the stage of `record` counts.
    pub fn of(record: &Artifact) -> Self {
        let setting = |name: &str| record.components.get(&format!("settings.{name}")).cloned();
        let number = |name: &str| setting(name).and_then(|value| value.parse().ok());
        let default = Interval::default();
        let named = record.components.iter().filter_map(|(name, expression)| {
            Some((name.strip_prefix("settings.metrics.")?.to_owned(), expression.clone()))
        });
        let accuracy = setting("correct").map(|expression| (ACCURACY.to_owned(), expression));
        Self {
            by: by(record),
            cluster: setting("cluster"),
            exclude: setting("exclude"),
            metrics: accuracy.into_iter().chain(named).collect(),
            ci: Interval {
                bootstrap: setting("ci.bootstrap").and_then(|value| value.parse().ok()),
                seed: setting("ci.seed")
                    .and_then(|value| value.parse().ok())
                    .unwrap_or(default.seed),
                level: number("ci.level").unwrap_or(default.level),
            },
        }
    }

    /// The rows of a table that the expressions call `name`, which `key` identifies.
    ///
    /// # Errors
    ///
    /// If the expressions do not fit the table.
    pub async fn rows(
        &self,
        name: &str,
        table: &Arc<StageTable>,
        key: &[String],
        engine: &Engine,
    ) -> Result<Vec<Row>> {
        let cluster = self.cluster.iter();
        let mut columns: Vec<String> =
            self.by.iter().chain(key).chain(cluster).map(|name| quoted(name)).collect();
        let has_id = table.schema().column_with_name(ROW_ID).is_some();
        columns.extend(has_id.then(|| quoted(ROW_ID)));
        let texts = columns.iter().enumerate().map(|(i, column)| format!("{column} AS t{i}"));
        let metrics = self.metrics.iter().enumerate();
        let values = metrics.map(|(i, (_, expression))| format!("({expression}) AS v{i}"));
        let excluded = self.exclude.as_deref().unwrap_or("false");
        let excluded = format!("CASE WHEN ({excluded}) IS TRUE THEN 1.0 ELSE 0.0 END AS excluded");
        let wanted: Vec<String> = texts.chain(values).chain([excluded]).collect();
        let sql = format!("SELECT {} FROM {name}", wanted.join(", "));
        let rows = TextsAndNumbers::of(&sql, name, table, columns.len(), engine).await?;
        let at = self.by.len()..self.by.len() + key.len();
        let row = |row: usize| Row {
            group: rows.text(row, 0..at.start),
            key: rows.text(row, at.clone()),
            cluster: match self.cluster {
                Some(_) => text_at(&rows.texts[at.end], row),
                None => None,
            },
            row_id: match has_id {
                true => text_at(&rows.texts[columns.len() - 1], row),
                false => None,
            },
            values: (0..self.metrics.len()).map(|i| rows.value(row, i)).collect(),
            is_excluded: rows.value(row, self.metrics.len()) == Some(1.0),
        };
        Ok((0..rows.rows()).map(row).collect())
    }
}

/// The names of the metrics that a `measure` counts, from what its fingerprint covers.
pub fn metric_names(components: &BTreeMap<String, String>) -> Vec<String> {
    let named = components.keys().filter_map(|name| name.strip_prefix("settings.metrics."));
    let accuracy = components.contains_key("settings.correct").then_some(ACCURACY);
    accuracy.into_iter().chain(named).map(str::to_owned).collect()
}

/// The tables that two `measure` stages measured; or why their metrics cannot be compared.
pub(super) fn inputs<'a>(
    sides: [&'a Side; 2],
    records: [&Artifact; 2],
) -> std::result::Result<[&'a Artifact; 2], String> {
    let [ours, theirs] = records;
    let settings = |record: &Artifact| -> BTreeMap<String, String> {
        let settings = record.components.iter().filter(|(name, _)| name.starts_with("settings."));
        settings.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if settings(ours) != settings(theirs) {
        return Err("the two runs measure different things".to_owned());
    }
    let input = |side: &'a Side, record: &Artifact| {
        let input = record.components.get("input.from").and_then(|input| side.stage_of(input));
        input.ok_or_else(|| {
            format!("run {} does not have the rows that it was measured on", side.run.run)
        })
    };
    Ok([input(sides[0], ours)?, input(sides[1], theirs)?])
}
