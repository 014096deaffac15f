//! The questions that changed between two runs, with where both answers come from.

use serde::Serialize;

use crate::diff::gated::{Gated, NoEvidence};
use crate::diff::questions::ChangedQuestion;
use crate::diff::runs::Side;
use crate::draw::cells::format_float;
use crate::report::trace::{Style, item, text};
use crate::report::units::plural;
use crate::trace::assemble::ShownProofs;
use crate::trace::inquiry::{Inquiry, Traced, trace};
use crate::views::section::{Grid, Section};
use proofmill_base::error::Result;
use proofmill_base::ids::StageName;
use proofmill_base::styled::printable;
use proofmill_pipeline::gate::GatedMetric;

/// Columns of a drawn proof.
const WIDTH: usize = 110;
/// Rows of each table of an item.
const ROWS_SHOWN: usize = 3;
/// Characters of a question in its line.
const QUESTION_CHARS_MAX: usize = 160;

/// The questions of a metric that changed.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedView {
    stage: StageName,
    metric: String,
    /// The columns that tell questions apart.
    unit: Vec<String>,
    /// Why the two runs cannot be compared, if they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    questions: Vec<ChangedQuestion>,
    /// Of the first of them, where the answers of the baseline and of the candidate come from.
    proofs: Vec<[Option<Traced>; 2]>,
}

impl ChangedView {
    /// Of a metric of two runs; `proofs` of the questions are traced.
    ///
    /// # Errors
    ///
    /// If a table cannot be read.
    pub async fn of(metric: &GatedMetric, gated: &Gated<'_>, proofs: usize) -> Result<Self> {
        let mut view = Self {
            stage: metric.stage.clone(),
            metric: metric.metric.clone(),
            unit: Vec::new(),
            why_not: None,
            questions: Vec::new(),
            proofs: Vec::new(),
        };
        match gated.changed(metric).await {
            Ok(Ok((unit, questions))) => (view.unit, view.questions) = (unit, questions),
            Ok(Err(why)) | Err(NoEvidence::Unknown(why, _) | NoEvidence::TooLarge(why, _)) => {
                view.why_not = Some(why)
            }
            Err(NoEvidence::Failed(error)) => return Err(error),
        }
        for question in view.questions.iter().take(proofs) {
            let Some(key) = question.key.first().cloned().flatten() else { break };
            let mut both = [None, None];
            for (place, side) in both.iter_mut().zip(gated.sides) {
                *place = traced(&key, &metric.stage, side, gated).await;
            }
            view.proofs.push(both);
        }
        Ok(view)
    }

    /// As a table, and a fold for each question whose answers are traced.
    pub fn sections(&self) -> Vec<Section> {
        let name = format!("{}.{}", self.stage, self.metric);
        if let Some(why) = &self.why_not {
            return vec![Section::Text(format!("{name}: the runs are not compared: {why}\n"))];
        }
        if self.questions.is_empty() {
            return vec![Section::Text(format!("{name}: no question changed\n"))];
        }
        let worse = self.questions.iter().filter(|question| question.is_worse).count();
        let (all, better) = (self.questions.len(), self.questions.len() - worse);
        let title = format!(
            "{name}: {} changed, {worse} for the worse, {better} for the better",
            plural(all, "question")
        );
        let header: Vec<String> = self
            .unit
            .iter()
            .map(String::as_str)
            .chain(["", "baseline", "candidate"])
            .map(str::to_owned)
            .collect();
        let row = |question: &ChangedQuestion| {
            let key = question.key.iter().map(|part| part.clone().unwrap_or("NULL".to_owned()));
            let word = if question.is_worse { "worse" } else { "better" };
            let values = question.values.map(shown);
            key.chain([word.to_owned()]).chain(values).collect()
        };
        let grid = Grid {
            title: Some(title),
            right: header
                .iter()
                .map(|name| ["baseline", "candidate"].contains(&name.as_str()))
                .collect(),
            header,
            rows: self.questions.iter().map(row).collect(),
            note: None,
        };
        let mut sections = vec![Section::Table(grid)];
        for (question, proofs) in self.questions.iter().zip(&self.proofs) {
            sections.extend(fold(question, proofs));
        }
        sections
    }
}

fn shown(value: Option<f64>) -> String {
    value.map_or("no answer".to_owned(), format_float)
}

/// Where an answer comes from; `None` where the run has no path to it.
async fn traced(
    question: &str,
    measure: &StageName,
    side: &Side,
    gated: &Gated<'_>,
) -> Option<Traced> {
    let measured = side.record(measure)?;
    let answers = side.answers_of(measured).map(|record| record.stage.to_string());
    let inquiry = Inquiry { question: question.to_owned(), answers, shown: ShownProofs::Best };
    trace(&inquiry, &side.run, gated.store, gated.engine).await.ok()
}

/// Both answers to a question, one below the other.
fn fold(question: &ChangedQuestion, proofs: &[Option<Traced>; 2]) -> Option<Section> {
    let text = proofs.iter().flatten().find_map(question_text).unwrap_or_default();
    let key: Vec<&str> = question.key.iter().flatten().map(String::as_str).collect();
    let [before, now] = question.values.map(shown);
    let text: String = printable(&text, true).chars().take(QUESTION_CHARS_MAX).collect();
    let title = format!("{}: {before} → {now}  {text}", key.join("/"));
    let sections: Vec<Section> = ["baseline", "candidate"]
        .into_iter()
        .zip(proofs)
        .flat_map(|(name, proof)| {
            let drawn = Section::Drawn(drawn(proof.as_ref()?));
            Some([Section::Text(format!("{name}\n")), drawn])
        })
        .flatten()
        .collect();
    (!sections.is_empty()).then_some(Section::Fold { title, sections })
}

fn question_text(traced: &Traced) -> Option<String> {
    match traced {
        Traced::Answers(audit) => audit.question.text.clone(),
        Traced::Item(item) => item.question.text.clone(),
    }
}

fn drawn(traced: &Traced) -> String {
    let style = Style { width: WIDTH, colour: false, listed: false };
    match traced {
        Traced::Answers(audit) => text(audit, style),
        Traced::Item(trace) => item::text(trace, ROWS_SHOWN, style),
    }
    .into_string()
}
