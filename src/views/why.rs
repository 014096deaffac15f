//! Why a stage is cached or would run: what counts for it, and what of that is not what it was.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::run::planned::{PlannedAction, PlannedStage, RunPlan};
use crate::run::reason::{Change, Reason};
use crate::stages::plan::Prepared;
use crate::views::section::{Grid, Section, View};
use proofmill_base::ids::{Fingerprint, RunId, StageName};
use proofmill_base::secret;
use proofmill_base::styled::printable;

/// What decides about a stage.
#[derive(Clone, Debug, Serialize)]
pub struct WhyView<'a> {
    stage: &'a StageName,
    cached: bool,
    reason: String,
    changes: &'a [Change],
    /// Its inputs that would run, or may.
    upstream: Vec<&'a StageName>,
    fingerprint: Fingerprint,
    components: &'a BTreeMap<String, String>,
    #[serde(skip)]
    verdict: &'static str,
    #[serde(skip)]
    made: Option<(RunId, DateTime<Utc>)>,
}

impl<'a> WhyView<'a> {
    /// Of a stage of a plan; `None` if there is none of that name.
    pub fn of(name: &str, prepared: &'a Prepared, plan: &'a RunPlan) -> Option<Self> {
        let (name, stage) = plan.stages.iter().find(|(stage, _)| stage.as_str() == name)?;
        let inputs = prepared.stages[name].stage.inputs.iter().map(|input| &input.stage);
        let may_run = |input: &&StageName| {
            let action = &plan.stages[*input].action;
            matches!(action, PlannedAction::Run | PlannedAction::Revalidate(_))
        };
        Some(Self::new(name, stage, inputs.filter(may_run).collect()))
    }

    fn new(name: &'a StageName, stage: &'a PlannedStage, upstream: Vec<&'a StageName>) -> Self {
        let made = stage.action.stored().map(|found| &found.record);
        Self {
            stage: name,
            cached: matches!(stage.action, PlannedAction::Cached(_)),
            reason: stage.reason.to_string(),
            changes: match &stage.reason {
                Reason::Changed(changes) => changes,
                _ => &[],
            },
            upstream,
            fingerprint: stage.fingerprint,
            components: stage.components.map(),
            verdict: match stage.action {
                PlannedAction::Cached(_) => "is cached",
                PlannedAction::Revalidate(_) => "is stored and may run",
                PlannedAction::Run | PlannedAction::Skip => "would run",
            },
            made: made.map(|artifact| (artifact.created_by.clone(), artifact.created_at)),
        }
    }
}

impl View for WhyView<'_> {
    fn sections(&self) -> Vec<Section> {
        let (stage, verdict) = (self.stage, self.verdict);
        let mut text = format!("`{stage}` {verdict}: {}\n", printable(&self.reason, true));
        if let Some((run, at)) = &self.made {
            text += &format!("computed by run {run} at {at}\n");
        }
        let mut sections = vec![Section::Text(text)];
        if self.changes.is_empty() {
            let cells = |(name, value): (&String, &String)| vec![name.clone(), cell(value)];
            let rows = self.components.iter().map(cells).collect();
            let table = Grid::new(&["component", "value"], &[], rows);
            sections.push(Section::Table(table.titled("cache-key inputs:")));
        } else {
            let shown =
                |value: &Option<String>| value.as_deref().map_or("(absent)".to_owned(), cell);
            let cells = |c: &Change| vec![c.component.clone(), shown(&c.old), shown(&c.new)];
            let rows = self.changes.iter().map(cells).collect();
            sections.push(Section::Table(Grid::new(&["component", "was", "is"], &[], rows)));
        }
        if !self.upstream.is_empty() {
            let names: Vec<_> = self.upstream.iter().map(|name| format!("`{name}`")).collect();
            let names = names.join(", ");
            let text = format!("its inputs {names} would run too; see `proofmill why` for each\n");
            sections.push(Section::Text(text));
        }
        sections
    }
}

/// A value for people. What was recorded before secrets in addresses were refused may have one.
fn cell(value: &str) -> String {
    printable(&secret::covered(value), false)
}
