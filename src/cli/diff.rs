//! `proofmill diff`

use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::output::Output;
use crate::cli::shell::quoted;
use crate::diff::metrics::{MetricDiff, metrics};
use crate::diff::pair::TablePair;
use crate::diff::rows::{ChangedRow, RowsDiff};
use crate::diff::runs::{RunsDiff, Side, StageDiff, StageState, runs};
use crate::draw::cells::format_float;
use crate::report::units::{count, plural};
use crate::run::history::{RunSummary, ended};
use crate::run::reason::Change;
use crate::session::Engine;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::secret;
use proofmill_base::styled::printable;
use proofmill_base::suggest::{self, some_names};
use proofmill_pipeline::project::plain;
use proofmill_store::Store;

/// Characters of a value that a table shows.
const VALUE_CHARS_MAX: usize = 60;

/// Compares two runs, or the rows of one of their stages.
pub async fn diff(args: &args::Diff, environment: &Environment) -> Result<()> {
    let store = environment.store_to_read().await?;
    let a = environment.run(&store, Some(&args.a)).await?;
    let b = environment.run(&store, Some(&args.b)).await?;
    if a.run == b.run {
        let message = format!("`{}` and `{}` are the same run, {}", args.a, args.b, a.run);
        let help = "name two runs: `proofmill runs` lists them";
        return Err(Error::new(ErrorKind::Usage, message).with_hint(help));
    }
    let engine = environment.engine(&store, &environment.new_run())?;
    let sides = [Side::open(a, &store).await?, Side::open(b, &store).await?];
    let comparison = Comparison { args, sides, store: &store, engine: &engine, environment };
    match &args.stage {
        Some(stage) => comparison.of_stage(stage).await,
        None => comparison.of_runs().await,
    }
}

struct Comparison<'a> {
    args: &'a args::Diff,
    sides: [Side; 2],
    store: &'a Store,
    engine: &'a Engine,
    environment: &'a Environment,
}

impl Comparison<'_> {
    async fn of_runs(&self) -> Result<()> {
        let [a, b] = &self.sides;
        let found = runs(a, b);
        let (numbers, remarks) = metrics(a, b, &self.args.on, self.store, self.engine).await?;
        let (mut rows, mut unpaired) = (Vec::new(), Vec::new());
        for stage in found.stages.iter().filter(|stage| stage.state == StageState::Changed) {
            let Some(pair) = self.pair(stage.stage.as_str()).await? else { continue };
            match self.key(&pair).await {
                Ok(on) => rows.push(pair.diff(&on, &self.args.ignore, 0, self.engine).await?),
                // Such a table is still listed as changed.
                Err(_) => unpaired.push(pair.stage),
            }
        }
        let output = &self.environment.output;
        remarks.iter().for_each(|remark| output.remark(printable(remark, true)));
        if !unpaired.is_empty() {
            let named = some_names(unpaired.iter().map(String::as_str));
            output.remark(format!(
                "rows are not compared where nothing says which columns identify them: {named}; name these with `--on`"
            ));
        }
        if output.json {
            return output.json(&json!({
                "a": run_json(&a.run),
                "b": run_json(&b.run),
                "params": covered(&found.params),
                "code": covered(&found.code),
                "files": covered(&found.files),
                "stages": found.stages.iter().map(stage_json).collect::<Vec<_>>(),
                "metrics": numbers,
                "rows": rows,
            }));
        }
        let mut text = self.heading();
        text += &changes("parameters", &found.params, output);
        text += &changes("code", &found.code, output);
        text += &changes("files", &found.files, output);
        text += &stages(&found, output);
        text += &numbers_text(&numbers, output);
        text += &self.rows_text(&rows);
        output.long(text)
    }

    async fn of_stage(&self, stage: &str) -> Result<()> {
        let Some(pair) = self.pair(stage).await? else {
            let message = format!("`{stage}` is not a table in both runs");
            let [a, b] = &self.sides;
            let both = a.stages.keys().filter(|name| b.stages.contains_key(*name));
            let help = suggest::help(stage, both.map(|name| name.as_str()));
            let error = Error::new(ErrorKind::Usage, message);
            return Err(help.into_iter().fold(error, Error::with_hint));
        };
        let on = pair.key(&self.args.on, self.engine).await?;
        let found = pair.diff(&on, &self.args.ignore, self.args.limit, self.engine).await?;
        let output = &self.environment.output;
        if output.json {
            let [a, b] = &self.sides;
            return output
                .json(&json!({"a": run_json(&a.run), "b": run_json(&b.run), "rows": found}));
        }
        let mut text = self.heading();
        text += &format!("\n{}\n", summary(&found));
        if !found.columns.is_empty() {
            let header = ["column", "rows that differ"].map(str::to_owned);
            let rows = found.columns.iter().map(|(name, n)| vec![name.clone(), count(*n)]);
            text += &format!("\n{}", output.table(&header, rows.collect(), &[false, true]));
        }
        if !found.rows.is_empty() {
            text += &format!("\n{}", cells(&found, output));
        }
        output.long(text)?;
        let all = found.changed + found.only_a + found.only_b;
        if (found.rows.len() as u64) < all {
            let shown = count(found.rows.len() as u64);
            output
                .remark(format!("the first {shown} of {} rows; `--limit` prints more", count(all)));
        }
        Ok(())
    }

    /// The table of a stage in both runs; `None` unless both have one.
    async fn pair(&self, stage: &str) -> Result<Option<TablePair>> {
        let Ok(name) = stage.parse::<StageName>() else { return Ok(None) };
        let [a, b] = &self.sides;
        match (a.record(&name), b.record(&name)) {
            (Some(ours), Some(theirs)) => {
                TablePair::of(stage, [a, b], [ours, theirs], self.store).await
            }
            _ => Ok(None),
        }
    }

    /// The key of a table among others: that of `--on` where it fits.
    async fn key(&self, pair: &TablePair) -> Result<Vec<String>> {
        match pair.key(&self.args.on, self.engine).await {
            Err(_) if !self.args.on.is_empty() => pair.key(&[], self.engine).await,
            found => found,
        }
    }

    fn heading(&self) -> String {
        let line = |(name, side): (&str, &Side)| {
            let run = &side.run;
            let started = run.started_at.map(|at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string());
            let pipeline = printable(&run.pipeline, true);
            let started = started.unwrap_or_default();
            format!("{name}: run {} of {pipeline}, {started}, {}\n", run.run, ended(run))
        };
        ["a", "b"].into_iter().zip(&self.sides).map(line).collect()
    }

    fn rows_text(&self, rows: &[RowsDiff]) -> String {
        let mut text = String::new();
        for found in rows {
            let [a, b] = &self.sides;
            let runs = format!("{} {}", a.run.run, b.run.run);
            let store = self.environment.store_option();
            let on = match self.args.on.is_empty() {
                true => String::new(),
                false => format!(" --on {}", quoted(&found.on.join(","))),
            };
            let (said, stage) = (summary(found), &found.stage);
            text += &format!("\n{said}\n  proofmill diff{store} {runs} {stage}{on}\n");
        }
        text
    }
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
        text += &format!("; not compared, as not in both or of another type: {names}");
    }
    text
}

/// A line for each cell that differs.
fn cells(found: &RowsDiff, output: &Output) -> String {
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
            (Some(_), None) => rows.push(line("", "(there)".to_owned(), "(absent)".to_owned())),
            (None, _) => rows.push(line("", "(absent)".to_owned(), "(there)".to_owned())),
        }
    }
    let names = found.on.iter().map(String::as_str).chain(["column", "a", "b"]);
    output.table(&names.map(str::to_owned).collect::<Vec<_>>(), rows, &[])
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

fn changes(what: &str, changes: &[Change], output: &Output) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let shown = |value: &Option<String>| {
        value.as_ref().map_or("(absent)".to_owned(), |value| shortened(&secret::covered(value)))
    };
    let rows = changes.iter().map(|c| vec![c.component.clone(), shown(&c.old), shown(&c.new)]);
    let header = [what, "a", "b"].map(str::to_owned);
    format!("\n{}", output.table(&header, rows.collect(), &[]))
}

fn stages(found: &RunsDiff, output: &Output) -> String {
    let differing = found.stages.iter().filter(|stage| stage.state != StageState::Same);
    let rows: Vec<Vec<String>> = differing.map(stage_line).collect();
    let same = found.stages.len() - rows.len();
    if rows.is_empty() {
        return format!("\nall {} gave the same\n", plural(same, "stage"));
    }
    let header = ["stage", "kind", "table", "rows in a", "rows in b", "because of"];
    let right = [false, false, false, true, true, false];
    let table = output.table(&header.map(str::to_owned), rows, &right);
    format!("\n{table}{} gave the same\n", plural(same, "other stage"))
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
    let rows = stage.rows.map(|rows| rows.map(count).unwrap_or_default());
    let [a, b] = rows;
    vec![
        stage.stage.to_string(),
        stage.kind.clone(),
        state.to_owned(),
        a,
        b,
        shortened(&causes.join(", ")),
    ]
}

fn numbers_text(numbers: &[MetricDiff], output: &Output) -> String {
    if numbers.is_empty() {
        return String::new();
    }
    let float = |value: Option<f64>| value.map(format_float).unwrap_or_default();
    let row = |metric: &MetricDiff| {
        let by: Vec<String> = metric
            .by
            .iter()
            .map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or("NULL")))
            .collect();
        let test = metric.test.as_ref();
        let of = |of: fn(&crate::diff::metrics::PairedTest) -> Option<f64>| {
            float(test.and_then(of).filter(|value| value.is_finite()))
        };
        let only = |n: Option<u64>| n.map(count).unwrap_or_default();
        let [a, b] = metric.values;
        vec![
            metric.stage.clone(),
            by.join(" "),
            metric.metric.clone(),
            float(a),
            float(b),
            of(|test| Some(test.diff)),
            of(|test| Some(test.ci_low)),
            of(|test| Some(test.ci_high)),
            only(test.and_then(|test| test.only_a)),
            only(test.and_then(|test| test.only_b)),
            test.map(|test| format!("{} by {}", count(test.n as u64), test.on.join(", ")))
                .unwrap_or_default(),
            of(|test| test.p),
            of(|test| test.p_holm),
        ]
    };
    let header = [
        "stage", "by", "metric", "a", "b", "diff", "low", "high", "only a", "only b", "pairs", "p",
        "p holm",
    ];
    let right: Vec<bool> = (0..header.len()).map(|i| i > 2).collect();
    let rows = numbers.iter().map(row).collect();
    format!("\n{}", output.table(&header.map(str::to_owned), rows, &right))
}

fn covered(changes: &[Change]) -> Vec<Json> {
    changes.iter().map(crate::cli::why::change_json).collect()
}

fn stage_json(stage: &StageDiff) -> Json {
    let mut json = serde_json::to_value(stage).unwrap_or_default();
    json["changes"] = covered(&stage.changes).into();
    json
}

fn run_json(run: &RunSummary) -> Json {
    let params: serde_json::Map<String, Json> =
        run.params.iter().map(|(name, value)| (name.clone(), Json::from(plain(value)))).collect();
    json!({
        "run": run.run,
        "pipeline": run.pipeline,
        "started_at": run.started_at,
        "outcome": ended(run),
        "params": params,
    })
}
