//! The audit log, anchors, and what a verification found.

use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::report::units::{bytes, count, date_and_time, duration, plural};
use crate::views::section::{Grid, Section, View};
use proofmill_audit::bundle::{Bundle, Property};
use proofmill_audit::checkpoint::Anchor;
use proofmill_audit::finding::{Finding, Verified};
use proofmill_base::digest::Digest;
use proofmill_base::ids::{PipelineName, RunId, StageName};
use proofmill_base::styled::printable;
use proofmill_catalog::audit::entry::{AuditEvent, Ending, RunEnd};
use proofmill_catalog::audit::log::StoredAuditEntry;
use proofmill_store::{Extensions, SourceRef, SourceRefs, Trigger};

/// Runs and metrics that a finding names for people.
const NAMED_MAX: usize = 3;

/// Entries of the audit log, the latest first.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct AuditLogView(Vec<AuditLine>);

/// An entry.
#[derive(Clone, Debug, Serialize)]
struct AuditLine {
    seq: u64,
    at: DateTime<Utc>,
    /// Digest of its stored bytes.
    sha256: Digest,
    run: Option<RunId>,
    pipeline: Option<PipelineName>,
    event: AuditEvent,
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    extensions: Extensions,
}

impl AuditLogView {
    pub fn of(entries: &[StoredAuditEntry]) -> Self {
        let line = |stored: &StoredAuditEntry| AuditLine {
            seq: stored.entry.seq,
            at: stored.entry.t_utc,
            sha256: stored.sha256,
            run: stored.entry.event.run().cloned(),
            pipeline: stored.entry.event.pipeline().cloned(),
            event: stored.entry.event.clone(),
            extensions: stored.entry.extensions.clone(),
        };
        Self(entries.iter().map(line).collect())
    }
}

impl View for AuditLogView {
    fn sections(&self) -> Vec<Section> {
        let row = |line: &AuditLine| {
            vec![
                line.seq.to_string(),
                date_and_time(line.at),
                line.event.word().to_owned(),
                line.pipeline.as_ref().map(ToString::to_string).unwrap_or_default(),
                line.run.as_ref().map(ToString::to_string).unwrap_or_default(),
                printable(&detail(&line.event), false),
            ]
        };
        let header = ["entry", "at (UTC)", "event", "pipeline", "run", "what"];
        let rows = self.0.iter().map(row).collect();
        vec![Section::Table(Grid::new(&header, &["entry"], rows))]
    }
}

/// What an event says beside its word, its run and its pipeline.
fn detail(event: &AuditEvent) -> String {
    match event {
        AuditEvent::Adopted { runs } => {
            format!("{} of the time before this log", plural(runs.len(), "run"))
        }
        AuditEvent::RunBegan { pipeline, trigger, .. } => {
            let by = match trigger {
                Trigger::Command | Trigger::Resume => "by command".to_owned(),
                Trigger::Counterfactual { of, from, part } => match part {
                    Some(part) => format!("as run {of} with the {} of {from}", part.name()),
                    None => format!("as run {of}, again"),
                },
                Trigger::Schedule { name, planned } => {
                    format!("by schedule {name} for {}", date_and_time(*planned))
                }
            };
            format!("{by}, file {}", pipeline.yaml_sha256.short())
        }
        AuditEvent::RunEnded(RunEnd { how, manifest, log, late, .. }) => {
            let record = match (manifest, log) {
                (Some(manifest), _) => format!("manifest {}", manifest.short()),
                (None, Some(log)) => format!("log of {} entries", log.seq.saturating_add(1)),
                (None, None) => "no records".to_owned(),
            };
            let late = match (late, how) {
                (true, Ending::Killed | Ending::NotBegun) => ", entered by a later process",
                (true, _) => ", entered late",
                (false, _) => "",
            };
            format!("{record}{late}")
        }
        AuditEvent::Forgot { author, reason, answers, .. } => {
            let answers = plural(usize::try_from(*answers).unwrap_or(usize::MAX), "answer");
            format!("{answers}, by {author}: {reason}")
        }
        AuditEvent::RowsRoot { artifact, rows, .. } => {
            format!("{} rows of record {}", count(*rows), artifact.short())
        }
        AuditEvent::Judged(judged) => {
            let baseline = judged.baseline.as_ref();
            let against = baseline.map_or("nothing".to_owned(), ToString::to_string);
            let verdict = judged.verdict.sha256.short();
            format!("gate {} against {against}, verdict {verdict}", judged.gate)
        }
        AuditEvent::Pinned { owner, reason, .. } => format!("by {owner}: {reason}"),
        AuditEvent::Key { verifier } => verifier.clone(),
    }
}

/// A key.
#[derive(Clone, Debug, Serialize)]
pub struct KeyView {
    pub verifier: String,
}

impl View for KeyView {
    fn sections(&self) -> Vec<Section> {
        vec![Section::Text(format!("{}\n", self.verifier))]
    }
}

/// The root of a table.
#[derive(Clone, Debug, Serialize)]
pub struct RootView {
    pub run: RunId,
    pub stage: StageName,
    pub rows: u64,
    pub root: Digest,
}

impl View for RootView {
    fn sections(&self) -> Vec<Section> {
        vec![Section::Text(format!(
            "{}  {} rows of `{}`\n",
            self.root,
            count(self.rows),
            self.stage
        ))]
    }
}

/// An anchor that was written, or that the log fits.
#[derive(Clone, Debug, Serialize)]
pub struct AnchorView {
    origin: String,
    /// Entries that it names.
    size: u64,
    root: Digest,
    is_signed: bool,
    /// Entries that the log has now, where it was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    /// It existed by then, as a timestamp authority attests.
    #[serde(skip_serializing_if = "Option::is_none")]
    existed_by: Option<DateTime<Utc>>,
}

impl AnchorView {
    pub fn of(anchor: &Anchor, entries: Option<u64>) -> Self {
        let checkpoint = &anchor.checkpoint;
        Self {
            origin: checkpoint.origin.clone(),
            size: checkpoint.size,
            root: checkpoint.root,
            is_signed: anchor.is_signed(),
            entries,
            existed_by: None,
        }
    }

    /// With the time of its timestamp.
    pub fn stamped(self, existed_by: Option<DateTime<Utc>>) -> Self {
        Self { existed_by, ..self }
    }
}

impl View for AnchorView {
    fn sections(&self) -> Vec<Section> {
        let Self { origin, size, root, .. } = self;
        let now = self.entries.map(|entries| {
            format!("the log begins with these entries; it has {} now\n", count(entries))
        });
        let by = self.existed_by.map(|time| {
            let time = time.format("%Y-%m-%d %H:%M:%S UTC");
            format!("the anchor existed by {time}, as the timestamp authority attests\n")
        });
        vec![Section::Text(format!(
            "log {origin}, {} entries, root {root}\n{}{}",
            count(*size),
            now.unwrap_or_default(),
            by.unwrap_or_default()
        ))]
    }
}

/// What a verification found.
#[derive(Clone, Debug, Serialize)]
pub struct VerifiedView {
    #[serde(flatten)]
    verified: Verified,
    seconds: f64,
}

impl VerifiedView {
    pub fn of(verified: Verified, seconds: f64) -> Self {
        Self { verified, seconds }
    }
}

impl View for VerifiedView {
    fn sections(&self) -> Vec<Section> {
        let Verified { level, examined, findings, attested } = &self.verified;
        let mut sections: Vec<Section> = findings.iter().map(finding).collect();
        let mut text = format!(
            "level {level}: {} of the audit log, {}, {}",
            plural(examined.entries as usize, "entry").replace("entrys", "entries"),
            plural(examined.runs as usize, "run"),
            plural(examined.records as usize, "table"),
        );
        if *level > 1 {
            let each = (examined.bytes as f64 / self.seconds.max(0.001)) as u64;
            text += &format!(
                ", {} of {} ({}/s)",
                plural(examined.objects as usize, "object"),
                bytes(examined.bytes),
                bytes(each)
            );
        }
        if *level > 2 {
            text += &format!(", {} rows", count(examined.rows));
        }
        let took = std::time::Duration::from_secs_f64(self.seconds.max(0.0));
        text += &format!(" in {}\n", duration(took));
        if examined.unnamed > 0 {
            let unnamed = plural(examined.unnamed as usize, "object");
            text += &format!("{unnamed} that no record names: leftovers, which prove nothing\n");
        }
        attested.iter().for_each(|line| text += &format!("{line}\n"));
        text += match findings.as_slice() {
            [] => "all is as it was written\n",
            _ => "",
        };
        sections.push(Section::Text(text));
        sections
    }
}

fn finding(finding: &Finding) -> Section {
    let mut text = format!("{}: {}\n  {}\n", finding.fault, finding.object, finding.detail);
    let named = |all: Vec<String>| {
        let more = match all.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown: Vec<String> = all.into_iter().take(NAMED_MAX).collect();
        format!("{}{more}", shown.join(", "))
    };
    if !finding.runs.is_empty() {
        let runs = finding.runs.iter().map(ToString::to_string).collect();
        text += &format!("  runs that rest on it: {}\n", named(runs));
    }
    if !finding.metrics.is_empty() {
        let metrics = finding.metrics.iter().map(|it| format!("{} of {}", it.stage, it.run));
        text += &format!("  metrics that rest on it: {}\n", named(metrics.collect()));
    }
    Section::Text(text)
}

/// A number that was proved, in a folder.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct BundleView(pub Bundle);

impl View for BundleView {
    fn sections(&self) -> Vec<Section> {
        let Bundle { measured, item, properties, entries, size, .. } = &self.0;
        let row = |it: &Property| {
            vec![it.property.to_owned(), it.status.word().to_owned(), it.why.clone()]
        };
        let rows = properties.iter().map(row).collect();
        let tables = measured.iter().map(|it| format!("{} rows of `{}`", count(it.rows), it.stage));
        let text = format!(
            "{}; {} of the {} of the audit log\n",
            tables.collect::<Vec<_>>().join(", "),
            count(entries.len() as u64),
            count(*size),
        );
        let item = item.as_ref().map(|item| {
            let rows = item.tables.iter().map(|it| format!("{} of `{}`", it.of_item, it.stage));
            format!("rows of {}: {}\n", item.id, rows.collect::<Vec<_>>().join(", "))
        });
        vec![
            Section::Text(text + &item.unwrap_or_default()),
            Section::Table(Grid::new(&["property", "status", "why"], &[], rows)),
        ]
    }
}

/// The texts that a run was made of, and the text of one.
#[derive(Clone, Debug, Serialize)]
pub struct SourceView {
    pub run: RunId,
    /// The path of the one that is shown.
    pub path: String,
    pub text: String,
    pub sources: SourceRefs,
}

impl View for SourceView {
    fn sections(&self) -> Vec<Section> {
        vec![Section::Text(self.text.clone())]
    }
}

/// The path of a source of a run: as it was written, or its last part where that is one.
pub fn source_named<'a>(sources: &'a SourceRefs, name: &str) -> Option<(&'a str, &'a SourceRef)> {
    let exact = sources.get_key_value(name).map(|(path, source)| (path.as_str(), source));
    exact.or_else(|| {
        let is_last = |path: &str| Path::new(path).file_name().is_some_and(|it| it == name);
        let mut found = sources.iter().filter(|(path, _)| is_last(path));
        let only = found.next()?;
        found.next().is_none().then_some((only.0.as_str(), only.1))
    })
}
