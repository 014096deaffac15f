//! What came out of a run that was computed again.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::report::units::plural;
use crate::run::replay::Replayed;
use crate::views::section::{Grid, Section, View};
use proofmill_base::ids::{RunId, StageName};

/// A run that was computed again.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayView {
    run: RunId,
    /// Stages in the order of the run.
    #[serde(serialize_with = "by_stage")]
    stages: Vec<(StageName, Replayed)>,
    /// The share of these stages whose rows or files came out as they were.
    attested: f64,
}

fn by_stage<S: Serializer>(stages: &[(StageName, Replayed)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(stages.iter().map(|(stage, replayed)| (stage, replayed)))
}

impl ReplayView {
    pub fn new(run: RunId, stages: Vec<(StageName, Replayed)>) -> Self {
        let same =
            |it: &&(StageName, Replayed)| matches!(it.1, Replayed::SameRows | Replayed::SameSet);
        let attested = stages.iter().filter(same).count() as f64 / stages.len().max(1) as f64;
        Self { run, stages, attested }
    }

    /// The first stage in the order of the run that differs, and how.
    pub fn first_difference(&self) -> Option<(StageName, String)> {
        self.stages.iter().find_map(|(stage, replayed)| match replayed {
            Replayed::Differs(what) => Some((stage.clone(), what.clone())),
            _ => None,
        })
    }

    /// How many stages differ.
    pub fn differences(&self) -> usize {
        let differs = |it: &&(StageName, Replayed)| matches!(it.1, Replayed::Differs(_));
        self.stages.iter().filter(differs).count()
    }
}

impl View for ReplayView {
    fn sections(&self) -> Vec<Section> {
        let word = |replayed: &Replayed| match replayed {
            Replayed::SameRows => ("the same", String::new()),
            Replayed::SameSet => ("the same rows", "in another order".to_owned()),
            Replayed::FromRecord => (
                "from record",
                "answers of models were not computed again: `--recompute`".to_owned(),
            ),
            Replayed::Differs(what) => ("DIFFERS", what.clone()),
            Replayed::NotCovered(why) => ("not covered", why.clone()),
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut rows = Vec::new();
        for (stage, replayed) in &self.stages {
            let (word, detail) = word(replayed);
            *counts.entry(word).or_default() += 1;
            rows.push(vec![stage.to_string(), word.to_owned(), detail]);
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(word, count)| format!("{} {word}", plural(*count, "stage")))
            .collect();
        let summary = format!("run {}: {}\n", self.run, counts.join(", "));
        let grid = Grid::new(&["stage", "result", "why"], &[], rows);
        vec![Section::Table(grid), Section::Text(summary)]
    }
}
