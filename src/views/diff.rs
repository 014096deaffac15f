//! What differs between two runs: what they were made of, their numbers, and the rows of their tables.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value as Json;

use crate::diff::metrics::{MetricDiff, PairedTest};
use crate::diff::rows::{ChangedRow, RowsDiff};
use crate::diff::runs::{RunsDiff, Side, StageDiff, StageState};
use crate::draw::cells::format_float;
use crate::report::units::{count, date_and_time, plural};
use crate::run::reason::Change;
use crate::views::section::{Grid, Section, View};
use crate::views::shell::quoted;
use proofmill_base::ids::RunId;
use proofmill_base::secret;
use proofmill_base::styled::printable;
use proofmill_catalog::summary::{RunSummary, ended};
use proofmill_pipeline::project::plain;

/// Characters of a value that a table shows.
const VALUE_CHARS_MAX: usize = 60;

/// One of the two runs.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRun {
    run: RunId,
    pipeline: String,
    started_at: Option<DateTime<Utc>>,
    outcome: &'static str,
    params: BTreeMap<String, String>,
}

impl From<&RunSummary> for ComparedRun {
    fn from(run: &RunSummary) -> Self {
        let param = |(name, value): (&String, &Json)| (name.clone(), plain(value));
        Self {
            run: run.run.clone(),
            pipeline: run.pipeline.clone(),
            started_at: run.started_at,
            outcome: ended(run),
            params: run.params.iter().map(param).collect(),
        }
    }
}

/// Two runs.
#[derive(Clone, Debug, Serialize)]
pub struct DiffView {
    a: ComparedRun,
    b: ComparedRun,
    #[serde(flatten)]
    found: RunsDiff,
    metrics: Vec<MetricDiff>,
    /// Of the tables that differ and whose rows something identifies.
    rows: Vec<RowsDiff>,
    /// The options with which commands find the store, and with which the user said what identifies rows.
    #[serde(skip)]
    store_option: String,
    #[serde(skip)]
    names_key: bool,
}

impl DiffView {
    /// Of two runs of the store that commands find with `store_option`. `names_key` if the user said what identifies rows.
    pub fn of(
        [a, b]: &[Side; 2],
        found: RunsDiff,
        metrics: Vec<MetricDiff>,
        rows: Vec<RowsDiff>,
        store_option: String,
        names_key: bool,
    ) -> Self {
        let (a, b) = (ComparedRun::from(&a.run), ComparedRun::from(&b.run));
        Self { a, b, found, metrics, rows, store_option, names_key }
    }
}

impl View for DiffView {
    fn sections(&self) -> Vec<Section> {
        let found = &self.found;
        let mut sections = vec![heading(&self.a, &self.b)];
        for (what, all) in
            [("parameters", &found.params), ("code", &found.code), ("files", &found.files)]
        {
            sections.extend(changes(what, all));
        }
        sections.push(stages(found));
        sections.extend(numbers(&self.metrics));
        for rows in &self.rows {
            let on = match self.names_key {
                true => format!(" --on {}", quoted(&rows.on.join(","))),
                false => String::new(),
            };
            let (store, a, b) = (&self.store_option, &self.a.run, &self.b.run);
            let command = format!("proofmill diff{store} {a} {b} {}{on}", rows.stage);
            sections.push(Section::Text(format!("{}\n  {command}\n", summary(rows))));
        }
        sections
    }
}

/// The rows of a table in two runs.
#[derive(Clone, Debug, Serialize)]
pub struct RowsView {
    a: ComparedRun,
    b: ComparedRun,
    rows: RowsDiff,
}

impl RowsView {
    /// Of two runs.
    pub fn of([a, b]: &[Side; 2], rows: RowsDiff) -> Self {
        Self { a: ComparedRun::from(&a.run), b: ComparedRun::from(&b.run), rows }
    }

    /// What stands beside it: that there are more.
    pub fn remark(&self) -> Option<String> {
        let RowsDiff { rows, changed, only_a, only_b, .. } = &self.rows;
        let (shown, all) = (rows.len() as u64, changed + only_a + only_b);
        (shown < all).then(|| {
            let (shown, all) = (count(shown), count(all));
            format!("the first {shown} of {all} rows; `--limit` prints more")
        })
    }
}

impl View for RowsView {
    fn sections(&self) -> Vec<Section> {
        let found = &self.rows;
        let mut sections =
            vec![heading(&self.a, &self.b), Section::Text(format!("{}\n", summary(found)))];
        if !found.columns.is_empty() {
            let rows = found.columns.iter().map(|(name, n)| vec![name.clone(), count(*n)]);
            let header = ["column", "rows that differ"];
            let table = Grid::new(&header, &["rows that differ"], rows.collect());
            sections.push(Section::Table(table));
        }
        if !found.rows.is_empty() {
            sections.push(cells(found));
        }
        sections
    }
}

fn heading(a: &ComparedRun, b: &ComparedRun) -> Section {
    let line = |(name, run): (&str, &ComparedRun)| {
        let pipeline = printable(&run.pipeline, true);
        let started = run.started_at.map(|at| date_and_time(at) + " UTC").unwrap_or_default();
        format!("{name}: run {} of {pipeline}, {started}, {}\n", run.run, run.outcome)
    };
    Section::Text([("a", a), ("b", b)].into_iter().map(line).collect())
}

fn summary(found: &RowsDiff) -> String {
    let on = printable(&found.on.join(", "), true);
    let mut text = format!(
        "{}: of {} in both runs, paired by {on}, {} differ",
        found.stage,
        plural(found.both as usize, "row"),
        count(found.changed)
    );
    for (n, run) in [(found.only_a, "a"), (found.only_b, "b")] {
        if n > 0 {
            text += &format!("; {} only in {run}", count(n));
        }
    }
    if !found.not_compared.is_empty() {
        let names = printable(&found.not_compared.join(", "), true);
        text += &format!("; not compared (missing in one run or of another type): {names}");
    }
    text
}

/// A line for each cell that differs.
fn cells(found: &RowsDiff) -> Section {
    let mut rows = Vec::new();
    for row in &found.rows {
        let key = row.key.iter().map(value);
        let line = |column: &str, a: String, b: String| {
            key.clone().chain([column.to_owned(), a, b]).collect::<Vec<_>>()
        };
        match (&row.a, &row.b) {
            (Some(a), Some(b)) => {
                let lines = ChangedRow::changed(row).into_iter();
                rows.extend(lines.map(|column| line(column, value(&a[column]), value(&b[column]))));
            }
            (Some(_), None) => rows.push(line("", "(present)".to_owned(), "(absent)".to_owned())),
            (None, _) => rows.push(line("", "(absent)".to_owned(), "(present)".to_owned())),
        }
    }
    let names: Vec<&str> =
        found.on.iter().map(String::as_str).chain(["column", "a", "b"]).collect();
    Section::Table(Grid::new(&names, &[], rows))
}

fn value(value: &Json) -> String {
    let text = match value {
        Json::Null => "NULL".to_owned(),
        Json::String(text) => text.clone(),
        Json::Number(number) if number.is_f64() => {
            number.as_f64().map(format_float).unwrap_or_default()
        }
        value => value.to_string(),
    };
    shortened(&text)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn changes(what: &str, changes: &[Change]) -> Option<Section> {
    let shown = |value: &Option<String>| {
        value.as_ref().map_or("(absent)".to_owned(), |value| shortened(&secret::covered(value)))
    };
    let rows = changes.iter().map(|c| vec![c.component.clone(), shown(&c.old), shown(&c.new)]);
    let table = Grid::new(&[what, "a", "b"], &[], rows.collect());
    (!changes.is_empty()).then_some(Section::Table(table))
}

fn stages(found: &RunsDiff) -> Section {
    let differing = found.stages.iter().filter(|stage| stage.state != StageState::Same);
    let rows: Vec<Vec<String>> = differing.map(stage_line).collect();
    let same = found.stages.len() - rows.len();
    if rows.is_empty() {
        return Section::Text(format!("all {} gave the same result\n", plural(same, "stage")));
    }
    let header = ["stage", "kind", "table", "rows in a", "rows in b", "because of"];
    let table = Grid::new(&header, &["rows in a", "rows in b"], rows);
    Section::Table(table.noted(format!("{} gave the same result", plural(same, "other stage"))))
}

fn stage_line(stage: &StageDiff) -> Vec<String> {
    let state = match stage.state {
        StageState::Same => "same",
        StageState::Changed => "differs",
        StageState::OnlyA => "only in a",
        StageState::OnlyB => "only in b",
    };
    let own = stage.changes.iter().map(|change| change.component.clone());
    let inputs = stage.inputs.iter().map(|input| format!("input {input}"));
    let mut causes: Vec<String> = own.chain(inputs).collect();
    if causes.is_empty() && stage.state == StageState::Changed {
        causes.push("computed again".to_owned());
    }
    let [a, b] = stage.rows.map(|rows| rows.map(count).unwrap_or_default());
    vec![
        stage.stage.to_string(),
        stage.kind.clone(),
        state.to_owned(),
        a,
        b,
        shortened(&causes.join(", ")),
    ]
}

fn numbers(metrics: &[MetricDiff]) -> Option<Section> {
    let header = [
        "stage", "by", "metric", "a", "b", "diff", "low", "high", "only a", "only b", "pairs", "p",
        "p holm",
    ];
    let table = Grid::new(&header, &header[3..], metrics.iter().map(number_cells).collect());
    (!metrics.is_empty()).then_some(Section::Table(table))
}

fn number_cells(metric: &MetricDiff) -> Vec<String> {
    let by = metric.by.iter();
    let by = by.map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or("NULL")));
    let float = |value: Option<f64>| value.map(format_float).unwrap_or_default();
    let test = metric.test.as_ref();
    let of = |of: fn(&PairedTest) -> Option<f64>| {
        float(test.and_then(of).filter(|value| value.is_finite()))
    };
    let only = |n: Option<u64>| n.map(count).unwrap_or_default();
    let pairs = |test: &PairedTest| format!("{} by {}", count(test.n as u64), test.on.join(", "));
    let [a, b] = metric.values;
    vec![
        metric.stage.clone(),
        by.collect::<Vec<_>>().join(" "),
        metric.metric.clone(),
        float(a),
        float(b),
        of(|test| Some(test.diff)),
        of(|test| Some(test.ci_low)),
        of(|test| Some(test.ci_high)),
        only(test.and_then(|test| test.only_a)),
        only(test.and_then(|test| test.only_b)),
        test.map(pairs).unwrap_or_default(),
        of(|test| test.p),
        of(|test| test.p_holm),
    ]
}
