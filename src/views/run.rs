//! A past run: its stages, its usage of models, what failed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

use crate::report::model_usage;
use crate::report::units::{bytes, count, plural};
use crate::views::runs::state_cell;
use crate::views::section::{Grid, Section, View};
use crate::views::shell::quoted;
use proofmill_base::ids::RunId;
use proofmill_base::styled::printable;
use proofmill_catalog::event::StageFailure;
use proofmill_catalog::progress::{RunProgress, StageProgress};
use proofmill_catalog::summary::{RunSummary, ended};
use proofmill_store::{LocalUsage, ModelUsage, StageOutcome};

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct RunView<'a> {
    run: &'a RunId,
    pipeline: &'a str,
    /// How it ended, in a word.
    outcome: &'static str,
    /// How far it is, if it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RunProgress>,
    params: &'a BTreeMap<String, Json>,
    /// Usage of models behind endpoints, and what models in folders computed.
    models: &'a BTreeMap<String, ModelUsage>,
    local_models: &'a BTreeMap<String, LocalUsage>,
    /// Stages that ended well.
    stages: &'a [StageOutcome],
    failed: &'a [StageFailure],
    /// Stages that neither ended well nor failed: they needed one that failed, or the run was stopped before.
    not_run: usize,
    /// The option with which commands find the store.
    #[serde(skip)]
    store_option: String,
}

impl<'a> RunView<'a> {
    /// Of a run of the store that commands find with `store_option`.
    pub fn of(run: &'a RunSummary, store_option: String) -> Self {
        Self {
            run: &run.run,
            pipeline: &run.pipeline,
            outcome: ended(run),
            progress: run.progress.as_ref(),
            params: &run.params,
            models: &run.models,
            local_models: &run.local_models,
            stages: &run.stages,
            failed: &run.failed,
            not_run: run.stages_all.saturating_sub(run.stages.len() + run.failed.len()),
            store_option,
        }
    }
}

impl View for RunView<'_> {
    fn sections(&self) -> Vec<Section> {
        let pipeline = printable(self.pipeline, true);
        let header = ["stage", "kind", "status", "rows", "errors", "bytes", "ms", "fingerprint"];
        let failed = self.failed.iter().filter_map(|failure| failure.outcome.as_ref());
        let rows = self.stages.iter().chain(failed).map(line).collect();
        let mut sections = vec![
            Section::Text(format!(
                "run {} of {pipeline}: {}\n",
                self.run,
                state_cell(self.outcome, self.progress)
            )),
            Section::Table(Grid::new(&header, &["rows", "errors", "bytes", "ms"], rows)),
        ];
        let running = self.progress.iter().flat_map(|progress| &progress.running);
        sections.extend(running.map(|stage| Section::Text(running_line(stage))));
        let models = self.models.iter().map(|(model, usage)| model_usage::of_model(model, usage));
        let local = self.local_models.iter();
        let local = local.map(|(model, usage)| model_usage::of_local_model(model, usage));
        sections.extend(models.chain(local).map(|line| Section::Text(line + "\n")));
        for failure in self.failed {
            let (stage, why) = (printable(&failure.stage, true), printable(&failure.message, true));
            let mut text = format!("{stage} failed: {why}\n");
            if let Some(query) = &failure.query {
                let command = sql_command(&self.store_option, self.run, query);
                text += &format!("its rows: {command}\n");
            }
            sections.push(Section::Text(text));
        }
        if self.not_run > 0 {
            let stages = plural(self.not_run, "stage");
            sections.push(Section::Text(format!("{stages} did not run\n")));
        }
        sections
    }
}

fn running_line(stage: &StageProgress) -> String {
    let rows = match stage.rows_total {
        Some(total) => format!("{} of {} rows", count(stage.rows), count(total)),
        None => plural(stage.rows as usize, "row"),
    };
    let requests = (stage.requests > 0).then(|| format!(", {} requests", count(stage.requests)));
    format!("{} runs: {rows}{}\n", stage.stage, requests.unwrap_or_default())
}

fn line(stage: &StageOutcome) -> Vec<String> {
    vec![
        stage.stage.to_string(),
        stage.kind.clone(),
        format!("{:?}", stage.status).to_lowercase(),
        count(stage.rows),
        count(stage.error_rows),
        bytes(stage.bytes),
        count(stage.wall_ms),
        stage.fingerprint.map(|f| f.0.short()).unwrap_or_default(),
    ]
}

/// The command that asks `query` of a run, as a shell takes it.
pub fn sql_command(store_option: &str, run: &RunId, query: &str) -> String {
    format!("proofmill sql{store_option} --run {run} {}", quoted(query))
}
