//! Rows of a run that failed, and the commands that ask them again.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::report::units::{count, plural};
use crate::run::bind::tables;
use crate::session::Engine;
use crate::stages::load::{ASK, LIMIT};
use crate::stages::tables::query::rows_of;
use crate::stages::tables::rows::objects;
use crate::views::section::{Grid, Section, View};
use crate::views::shell::quoted;
use proofmill_base::error::Result;
use proofmill_base::ids::RunId;
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::project::plain;
use proofmill_pipeline::role::KindRole;
use proofmill_store::Store;

/// Characters of a message that a table shows.
const MESSAGE_CHARS_MAX: usize = 100;

/// The failed rows of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorsView {
    run: RunId,
    /// By stage and class.
    counts: Vec<ErrorCount>,
    /// The first of them, as their tables hold them, each with its stage.
    rows: Vec<Map<String, Json>>,
    /// By stage, the command that computes it again: what models answered is replayed, what failed
    /// is requested again. Records of files come out the same until the file is fixed, and then
    /// without this command.
    ask_again: BTreeMap<String, String>,
    #[serde(skip)]
    all: u64,
}

/// Failed rows of a stage and a class.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorCount {
    pub stage: String,
    pub class: String,
    pub rows: Option<u64>,
}

impl ErrorsView {
    /// The first `limit` failed rows of a run, of one stage if it is named. Commands find the store with `store_option`.
    ///
    /// # Errors
    ///
    /// When a table is lost or damaged, or the store fails.
    pub async fn of(
        run: &RunSummary,
        stage: Option<&str>,
        limit: usize,
        store: &Store,
        engine: &Engine,
        store_option: &str,
    ) -> Result<Self> {
        let wanted = |name: &str| stage.is_none_or(|stage| stage == name);
        let (mut rows, mut counts, mut all) = (Vec::new(), Vec::new(), 0);
        for outcome in run.tables().filter(|outcome| wanted(outcome.stage.as_str())) {
            let Some((_, table)) = tables(store, outcome).await?.into_iter().nth(1) else {
                continue;
            };
            all += table.rows();
            let named = [("e", &table)];
            let by_class = "SELECT class, count(*) AS n FROM e GROUP BY class ORDER BY class";
            let (_, found) = rows_of(by_class, &named, engine).await?;
            counts.extend(objects(&found).iter().map(|row| ErrorCount {
                stage: outcome.stage.to_string(),
                class: plain(&row["class"]),
                rows: row["n"].as_u64(),
            }));
            let left = limit.saturating_sub(rows.len());
            let first = format!("SELECT * FROM e LIMIT {}", left.min(i64::MAX as usize));
            let (_, found) = rows_of(&first, &named, engine).await?;
            for row in objects(&found) {
                let stage = ("stage".to_owned(), json!(outcome.stage));
                rows.push(std::iter::once(stage).chain(row).collect::<Map<_, _>>());
            }
        }
        let ask_again = commands(run, &counts, store_option);
        Ok(Self { run: run.run.clone(), counts, rows, ask_again, all })
    }

    /// What stands beside it: that there are more, and how to ask again.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if (self.rows.len() as u64) < self.all {
            let shown = count(self.rows.len() as u64);
            let all = plural(self.all as usize, "row");
            remarks.push(format!("the first {shown} of {all}; `--limit 0` prints all"));
        }
        let again = self.ask_again.iter();
        remarks.extend(
            again.map(|(stage, command)| format!("retry the rows of {stage}:\n  {command}")),
        );
        remarks
    }
}

impl View for ErrorsView {
    fn sections(&self) -> Vec<Section> {
        if self.all == 0 {
            return vec![Section::Text(format!("no row of run {} failed\n", self.run))];
        }
        let of_count = |it: &ErrorCount| {
            vec![
                it.stage.clone(),
                it.class.clone(),
                it.rows.map(|n| n.to_string()).unwrap_or_default(),
            ]
        };
        let counts = self.counts.iter().map(of_count).collect();
        let header = ["stage", "source", "place", "column", "class", "message"];
        let rows = self.rows.iter().map(line).collect();
        vec![
            Section::Table(Grid::new(&["stage", "class", "rows"], &["rows"], counts)),
            Section::Table(Grid::new(&header, &[], rows)),
        ]
    }
}

fn line(row: &Map<String, Json>) -> Vec<String> {
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
}

fn commands(
    run: &RunSummary,
    counts: &[ErrorCount],
    store_option: &str,
) -> BTreeMap<String, String> {
    let Some(origin) = &run.origin else { return BTreeMap::new() };
    let params = run.params.iter().map(|(name, value)| match name.as_str() {
        LIMIT => format!(" {LIMIT} {}", plain(value)),
        ASK => format!(" {ASK} all"),
        name => format!(" --param {}", quoted(&format!("{name}={}", plain(value)))),
    });
    let params: String = params.collect();
    let file = quoted(&origin.file.path);
    let command = |stage: &String| {
        let is_read =
            run.table(stage).and_then(|it| KindRole::of(&it.kind)) == Some(KindRole::Source);
        let again = if is_read { String::new() } else { format!(" --rerun {}", quoted(stage)) };
        (stage.clone(), format!("proofmill run {file}{params}{again}{store_option}"))
    };
    counts.iter().map(|count| command(&count.stage)).collect()
}
