//! The metrics of a run with their intervals, each with the population that it speaks of.

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::diff::runs::Side;
use crate::draw::cells::format_float;
use crate::report::units::plural;
use crate::stages::load::LIMIT;
use crate::stages::tables::results::{RESULT_COLUMNS, ResultRole, result_column};
use crate::views::section::{Grid, Section};
use proofmill_base::ids::StageName;
use proofmill_pipeline::project::plain;

/// The column that says which stage gave a row.
const STAGE: &str = "stage";

/// The metrics of a stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageMetrics {
    stage: String,
    /// The rows that were measured, in words.
    population: Option<String>,
    rows: Vec<Map<String, Json>>,
}

impl StageMetrics {
    /// Of all stages of a run that have some.
    pub fn of_run(side: &Side) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for row in side.run.metrics.iter().filter_map(Json::as_object) {
            let stage = row.get(STAGE).map(plain).unwrap_or_default();
            match all.last_mut().filter(|last| last.stage == stage) {
                Some(last) => last.rows.push(row.clone()),
                None => all.push(Self {
                    population: population(&stage, side),
                    rows: vec![row.clone()],
                    stage,
                }),
            }
        }
        all
    }

    /// As a table.
    pub fn section(&self) -> Section {
        let is_there = |name: &str| {
            self.rows.iter().any(|row| row.get(name).is_some_and(|value| !value.is_null()))
        };
        let titled = |role: fn(ResultRole) -> bool| {
            RESULT_COLUMNS.iter().filter_map(move |column| {
                Some((column.name, column.title?)).filter(|_| role(column.role))
            })
        };
        let mut labels: Vec<(&str, &str)> = Vec::new();
        for name in self.rows.iter().flat_map(Map::keys).map(String::as_str) {
            let is_new = !labels.contains(&(name, name));
            if name != STAGE && result_column(name).is_none() && is_new {
                labels.push((name, name));
            }
        }
        let columns = titled(|role| role == ResultRole::Metric)
            .chain(labels)
            .chain(titled(|role| role == ResultRole::Label))
            .chain(titled(|role| role == ResultRole::Number));
        let columns: Vec<(&str, &str)> = columns.filter(|(name, _)| is_there(name)).collect();
        let is_number = |(name, _): &(&str, &str)| {
            result_column(name).is_some_and(|column| column.role == ResultRole::Number)
        };
        Section::Table(Grid {
            title: Some(self.stage.clone()),
            header: columns.iter().map(|(_, title)| (*title).to_owned()).collect(),
            rows: self.rows.iter().map(|row| cells(row, &columns)).collect(),
            right: columns.iter().map(is_number).collect(),
            note: self.population.clone(),
        })
    }
}

fn cells(row: &Map<String, Json>, columns: &[(&str, &str)]) -> Vec<String> {
    columns.iter().map(|(name, _)| cell(row, name)).collect()
}

fn cell(row: &Map<String, Json>, name: &str) -> String {
    match row.get(name) {
        None | Some(Json::Null) => String::new(),
        Some(Json::Number(number)) if number.is_f64() => {
            number.as_f64().map(format_float).unwrap_or_default()
        }
        Some(value) => plain(value),
    }
}

/// What was measured: rows of which table, which of them not, and of how much of the sources.
fn population(stage: &str, side: &Side) -> Option<String> {
    let record = side.record(&stage.parse::<StageName>().ok()?)?;
    let input = record.components.get("input.from").and_then(|input| side.stage_of(input))?;
    let mut said = format!("over {} of {}", plural(input.rows as usize, "row"), input.stage);
    for (setting, word) in [("exclude", "excluded"), ("cluster", "clusters")] {
        if let Some(value) = record.components.get(&format!("settings.{setting}")) {
            said += &format!("; {word}: {value}");
        }
    }
    if let Some(rows) = side.run.params.get(LIMIT) {
        said += &format!("; only the first {} rows of each source were read", plain(rows));
    }
    Some(said)
}
