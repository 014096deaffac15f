//! `proofmill errors`

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::output::Output;
use crate::cli::shell::quoted;
use crate::report::units::{count, plural};
use crate::run::history::{RunSummary, tables};
use crate::stages::load::LIMIT;
use crate::stages::tables::query::rows_of;
use crate::stages::tables::rows::objects;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_pipeline::project::plain;

/// Characters of a message that a table shows.
const MESSAGE_CHARS_MAX: usize = 100;

/// Lists the rows of a run that failed, and how to ask them again.
pub async fn errors(args: &args::Errors, environment: &Environment) -> Result<()> {
    let store = environment.store_to_read().await?;
    let run = environment.run(&store, Some(&args.run)).await.map_err(|error| match args.stage {
        None if args.run != args::LATEST => {
            error.with_hint("a stage comes second: `proofmill errors latest STAGE`")
        }
        _ => error,
    })?;
    if let Some(stage) = &args.stage
        && run.table(stage).is_none()
    {
        let message = format!("run `{}` has no stage `{stage}`", run.run);
        let names: Vec<&str> = run.tables().map(|outcome| outcome.stage.as_str()).collect();
        let error = Error::new(ErrorKind::Usage, message);
        return Err(suggest::help(stage, names).into_iter().fold(error, Error::with_hint));
    }
    let engine = environment.engine(&store, &environment.new_run())?;
    let limit = if args.limit == 0 { u64::MAX as usize } else { args.limit };
    let wanted = |name: &str| args.stage.as_deref().is_none_or(|stage| stage == name);
    let (mut rows, mut counts, mut all) = (Vec::new(), Vec::new(), 0);
    for outcome in run.tables().filter(|outcome| wanted(outcome.stage.as_str())) {
        let Some((_, table)) = tables(&store, outcome).await?.into_iter().nth(1) else { continue };
        all += table.rows();
        let named = [("e", &table)];
        let by_class = "SELECT class, count(*) AS n FROM e GROUP BY class ORDER BY class";
        let (_, found) = rows_of(by_class, &named, &engine).await?;
        let text = |row: &Map<String, Json>, name: &str| plain(&row[name]);
        for row in objects(&found) {
            counts.push((outcome.stage.to_string(), text(&row, "class"), text(&row, "n")));
        }
        let left = limit.saturating_sub(rows.len());
        let first = format!("SELECT * FROM e LIMIT {}", left.min(i64::MAX as usize));
        let (_, found) = rows_of(&first, &named, &engine).await?;
        for row in objects(&found) {
            let stage = ("stage".to_owned(), json!(outcome.stage));
            rows.push(std::iter::once(stage).chain(row).collect::<Map<_, _>>());
        }
    }
    let again = commands(&run, &counts, environment);
    let output = &environment.output;
    if output.json {
        let counts: Vec<Json> = counts
            .iter()
            .map(|(stage, class, n)| json!({"stage": stage, "class": class, "rows": n.parse::<u64>().ok()}))
            .collect();
        return output.json(&json!({
            "run": run.run,
            "counts": counts,
            "rows": rows,
            "ask_again": again,
        }));
    }
    if all == 0 {
        return output.data(format!("no row of run {} failed\n", run.run));
    }
    let header = ["stage", "class", "rows"].map(str::to_owned);
    let of_counts = counts.iter().map(|(a, b, n)| vec![a.clone(), b.clone(), n.clone()]).collect();
    output.data(output.table(&header, of_counts, &[false, false, true]))?;
    output.data(format!("\n{}", lines(&rows, output)))?;
    if (rows.len() as u64) < all {
        let shown = count(rows.len() as u64);
        let all = plural(all as usize, "row");
        output.remark(format!("the first {shown} of {all}; `--limit 0` prints all"));
    }
    for (stage, command) in again {
        output.remark(format!("ask the rows of {stage} again:\n  {command}"));
    }
    Ok(())
}

fn lines(rows: &[Map<String, Json>], output: &Output) -> String {
    let line = |row: &Map<String, Json>| {
        let text = |name: &str| match &row[name] {
            Json::Null => String::new(),
            value => plain(value),
        };
        let place = match (text("line"), text("row")) {
            (line, _) if !line.is_empty() => format!("line {line}"),
            (_, row) => format!("row {row}"),
        };
        let mut message = text("message");
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
            message.truncate(end);
            message.push('…');
        }
        vec![text("stage"), text("source"), place, text("column"), text("class"), message]
    };
    let header = ["stage", "source", "place", "column", "class", "message"].map(str::to_owned);
    output.table(&header, rows.iter().map(line).collect(), &[])
}

/// For each stage with error rows the command that computes it again: what models answered is replayed, what
/// failed is asked. Records of files come out the same until the file is mended, and then without being asked to.
fn commands(
    run: &RunSummary,
    counts: &[(String, String, String)],
    environment: &Environment,
) -> BTreeMap<String, String> {
    let Some(origin) = &run.origin else { return BTreeMap::new() };
    let params = run.params.iter().map(|(name, value)| match name.as_str() {
        LIMIT => format!(" {LIMIT} {}", plain(value)),
        name => format!(" --param {}", quoted(&format!("{name}={}", plain(value)))),
    });
    let params: String = params.collect();
    let command = |stage: &String| {
        let is_read = run.table(stage).is_some_and(|outcome| outcome.kind == "read");
        let again = if is_read { String::new() } else { format!(" --rerun {}", quoted(stage)) };
        let file = quoted(&origin.file.path);
        (
            stage.clone(),
            format!("proofmill run {file}{params}{again}{}", environment.store_option()),
        )
    };
    counts.iter().map(|(stage, ..)| command(stage)).collect()
}
