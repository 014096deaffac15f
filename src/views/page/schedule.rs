//! Everything about a schedule on one page: its nights with their verdicts, and the page of the last run.

use serde::Serialize;

use crate::report::units::{count, date_and_time, plural};
use crate::views::page::run::RunPage;
use crate::views::schedule::{
    HistoryLine, LastRun, ScheduleHistoryView, ScheduleStatus, StatusView, how,
};
use crate::views::section::{Grid, Section, View};
use proofmill_base::error::Result;
use proofmill_base::ids::PipelineName;
use proofmill_schedule::log::ScheduleLog;
use proofmill_schedule::state::ScheduleEvent;
use proofmill_store::Store;

/// Entries about instants at which nothing ran.
const SKIPPED_MAX: usize = 20;

/// The nights of a schedule.
#[derive(Serialize)]
pub struct Nights {
    status: StatusView,
    /// Runs that ended, the latest first.
    pub ended: Vec<LastRun>,
    /// Instants at which nothing ran.
    skipped: ScheduleHistoryView,
}

impl Nights {
    /// The last `most` nights of a schedule.
    ///
    /// # Errors
    ///
    /// If its log is broken, or the store fails.
    pub async fn of(
        store: &Store,
        name: &PipelineName,
        status: ScheduleStatus,
        most: usize,
    ) -> Result<Self> {
        let log = ScheduleLog::of(store, name);
        let is_end = |event: &ScheduleEvent| matches!(event, ScheduleEvent::Ended { .. });
        let ended = log.latest(most, |it| is_end(&it.event)).await?;
        let oldest = ended.last().map(|entry| entry.t_utc);
        let is_recent = |at| oldest.is_none_or(|oldest| at >= oldest);
        let entries = log
            .latest(SKIPPED_MAX, |it| {
                is_recent(it.t_utc) && HistoryLine::skipped(it).next().is_some()
            })
            .await?;
        Ok(Self {
            status: StatusView(vec![status]),
            ended: ended.iter().filter_map(LastRun::of).collect(),
            skipped: ScheduleHistoryView::of_skipped(&entries, SKIPPED_MAX),
        })
    }

    fn section(&self) -> Section {
        let row = |night: &LastRun| {
            vec![
                date_and_time(night.planned),
                how(night.how, night.verdict),
                night.requests.map(count).unwrap_or_default(),
                night.run.to_string(),
            ]
        };
        let rows: Vec<_> = self.ended.iter().map(row).collect();
        let nights = plural(rows.len(), "night");
        let grid = Grid::new(&["planned (UTC)", "how", "requests", "run"], &["requests"], rows);
        Section::Table(grid.noted(format!("the last {nights}; `requests`: answers of endpoints")))
    }
}

/// A schedule, and its last run.
#[derive(Serialize)]
pub struct SchedulePage<'a> {
    #[serde(flatten)]
    pub nights: Nights,
    /// The last run that ended; none if there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<RunPage<'a>>,
}

impl View for SchedulePage<'_> {
    fn sections(&self) -> Vec<Section> {
        let mut all = self.nights.status.sections();
        all.extend([Section::Heading("Nights"), self.nights.section()]);
        if !self.nights.skipped.is_empty() {
            all.push(Section::Heading("Instants without a run"));
            all.extend(self.nights.skipped.sections());
        }
        if let Some(last) = &self.last {
            all.extend([Section::Heading("The last night"), Section::Text(last.title() + "\n")]);
            all.extend(last.sections());
        }
        all
    }
}
