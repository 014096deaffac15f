//! Channels of a pipeline: which run each names, since when, and why.

use chrono::{DateTime, Utc};
use proofmill_base::ids::{ChannelName, PipelineName, RunId};
use proofmill_catalog::audit::channels::Move;
use proofmill_catalog::audit::entry::AuditEvent;
use serde::Serialize;

use crate::report::units::date_and_time;
use crate::views::section::{Grid, Section, View};

/// Channels of a pipeline.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelsView {
    pipeline: PipelineName,
    channels: Vec<ChannelLine>,
}

#[derive(Clone, Debug, Serialize)]
struct ChannelLine {
    channel: ChannelName,
    run: RunId,
    since: DateTime<Utc>,
    why: String,
}

impl ChannelsView {
    /// Of the entries that moved them.
    pub fn of(pipeline: PipelineName, moves: &[Move]) -> Self {
        let line = |it: &Move| ChannelLine {
            channel: it.channel.clone(),
            run: it.run.clone(),
            since: it.at,
            why: match &it.event {
                AuditEvent::Judged(judged) => format!("passed gate {}", judged.gate),
                AuditEvent::Pinned { owner, reason, .. } => format!("pinned by {owner}: {reason}"),
                other => other.word().to_owned(),
            },
        };
        Self { pipeline, channels: moves.iter().map(line).collect() }
    }
}

impl View for ChannelsView {
    fn sections(&self) -> Vec<Section> {
        if self.channels.is_empty() {
            let pipeline = &self.pipeline;
            return vec![Section::Text(format!(
                "`{pipeline}` has no channel: `proofmill channel pin RUN` pins its baseline\n"
            ))];
        }
        let row = |it: &ChannelLine| {
            let name = format!("{}@{}", self.pipeline, it.channel);
            vec![name, it.run.to_string(), date_and_time(it.since), it.why.clone()]
        };
        let rows = self.channels.iter().map(row).collect();
        vec![Section::Table(Grid::new(&["channel", "run", "since (UTC)", "why"], &[], rows))]
    }
}
