//! Memories that users teach: what one holds, its entries, its conflicts, what became of a lesson.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::memory::{
    Action, Clash, Conflict, JournalEntry, Lesson, Row, RowKind, Sentence, Taught,
};
use crate::report::units::date_and_time;
use crate::views::section::{Grid, Section, View};
use proofmill_base::ids::{MemoryName, RunId};
use proofmill_base::sentence::fact_id;
use proofmill_base::styled::printable;

/// The rows of a memory, with the names of the columns of a `memory` stage.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct MemoryView {
    rows: Vec<MemoryRow>,
    /// Whether long texts are whole where people read them.
    #[serde(skip)]
    full: bool,
}

#[derive(Clone, Debug, Serialize)]
struct MemoryRow {
    #[serde(flatten)]
    row: Row,
    fact_id: Option<String>,
}

impl MemoryView {
    /// Of all rows.
    pub fn of(rows: Vec<Row>, full: bool) -> Self {
        let row = |row: Row| {
            let fact_id = row.fact.as_ref().map(|fact| fact_id(fact.as_str()));
            MemoryRow { row, fact_id }
        };
        Self { rows: rows.into_iter().map(row).collect(), full }
    }
}

impl View for MemoryView {
    fn sections(&self) -> Vec<Section> {
        let line = |MemoryRow { row, .. }: &MemoryRow| {
            vec![
                row.entry.to_string(),
                row.kind.as_str().to_owned(),
                printable(&row.text(), self.full),
                printable(row.question.as_ref().map_or("", Sentence::as_str), self.full),
                row.source.as_str().to_owned(),
                row.author.clone(),
            ]
        };
        let header = ["entry", "kind", "what", "question", "source", "author"];
        let lines = self.rows.iter().map(line).collect();
        vec![Section::Table(Grid::new(&header, &["entry"], lines))]
    }
}

/// Every entry of a memory.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct HistoryView {
    entries: Vec<EntryLine>,
    #[serde(skip)]
    full: bool,
}

#[derive(Clone, Debug, Serialize)]
struct EntryLine {
    entry: u64,
    at: DateTime<Utc>,
    author: String,
    action: Action,
    what: String,
    undone_by: Option<u64>,
    reason: Option<String>,
    proof: Option<String>,
    run: Option<RunId>,
}

impl HistoryView {
    /// Of all entries, each with the one that undid it.
    pub fn of(entries: &[JournalEntry], undone_by: Vec<Option<u64>>, full: bool) -> Self {
        let line = |(entry, undone_by): (&JournalEntry, Option<u64>)| EntryLine {
            entry: entry.seq,
            at: entry.t_utc,
            author: entry.author.clone(),
            action: entry.action.clone(),
            what: entry.action.to_string(),
            undone_by,
            reason: entry.reason.clone(),
            proof: entry.proof.clone(),
            run: entry.run.clone(),
        };
        Self { entries: entries.iter().zip(undone_by).map(line).collect(), full }
    }
}

impl View for HistoryView {
    fn sections(&self) -> Vec<Section> {
        let line = |entry: &EntryLine| {
            vec![
                entry.entry.to_string(),
                date_and_time(entry.at),
                entry.author.clone(),
                entry.action.verb().to_string(),
                printable(&entry.what, self.full),
                entry.undone_by.map(|by| format!("by {by}")).unwrap_or_default(),
                printable(entry.reason.as_deref().unwrap_or_default(), self.full),
                entry.proof.clone().unwrap_or_default(),
            ]
        };
        let header = ["entry", "at (UTC)", "author", "action", "what", "undone", "reason", "proof"];
        let lines = self.entries.iter().map(line).collect();
        vec![Section::Table(Grid::new(&header, &["entry"], lines))]
    }
}

/// Facts of a memory that conflict.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ConflictsView {
    pairs: Vec<ConflictLine>,
    #[serde(skip)]
    full: bool,
}

/// A fact that conflicts with an earlier one.
#[derive(Clone, Debug, Serialize)]
pub struct ConflictLine {
    what: &'static str,
    entry: u64,
    fact: Sentence,
    with_entry: u64,
    with_fact: Option<Sentence>,
}

impl ConflictLine {
    /// `entry` has the later fact.
    pub fn of(entry: u64, conflict: &Conflict) -> Self {
        let Conflict { clash, fact, with } = conflict;
        let (what, with_fact) = (Clash::as_str(*clash), with.fact.clone());
        Self { what, entry, fact: fact.clone(), with_entry: with.entry, with_fact }
    }
}

impl ConflictsView {
    /// Of pairs, the earlier row first.
    pub fn of(found: &[(Row, Row, Conflict)], full: bool) -> Self {
        let line =
            |(_, later, conflict): &(Row, Row, Conflict)| ConflictLine::of(later.entry, conflict);
        Self { pairs: found.iter().map(line).collect(), full }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl View for ConflictsView {
    fn sections(&self) -> Vec<Section> {
        if self.is_empty() {
            return Vec::new();
        }
        let line = |pair: &ConflictLine| {
            let with_fact = pair.with_fact.as_ref().map_or("", Sentence::as_str);
            vec![
                pair.what.to_owned(),
                pair.with_entry.to_string(),
                printable(with_fact, self.full),
                pair.entry.to_string(),
                printable(pair.fact.as_str(), self.full),
            ]
        };
        let header = ["what", "entry", "fact", "entry", "fact"];
        let lines = self.pairs.iter().map(line).collect();
        vec![Section::Table(Grid::new(&header, &["entry"], lines))]
    }
}

/// The memories of a store.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct MemoriesView(Vec<MemoryLine>);

#[derive(Clone, Debug, Serialize)]
struct MemoryLine {
    memory: MemoryName,
    entries: usize,
    /// Rows by kind.
    holds: BTreeMap<&'static str, u64>,
    changed_at: Option<DateTime<Utc>>,
}

/// The kinds of rows, in the order of their columns.
const KINDS: [RowKind; 6] = [
    RowKind::Fact,
    RowKind::Noted,
    RowKind::Blocked,
    RowKind::Confirmed,
    RowKind::Excluded,
    RowKind::Forced,
];

impl MemoriesView {
    /// Adds a memory with its entries and its rows.
    pub fn add(&mut self, memory: MemoryName, entries: &[JournalEntry], rows: &[Row]) {
        let of_kind = |kind: RowKind| rows.iter().filter(|row| row.kind == kind).count() as u64;
        self.0.push(MemoryLine {
            memory,
            entries: entries.len(),
            holds: KINDS.into_iter().map(|kind| (kind.as_str(), of_kind(kind))).collect(),
            changed_at: entries.last().map(|entry| entry.t_utc),
        });
    }
}

impl View for MemoriesView {
    fn sections(&self) -> Vec<Section> {
        let kinds = KINDS.map(RowKind::as_str);
        let line = |line: &MemoryLine| {
            let mut cells = vec![line.memory.to_string(), line.entries.to_string()];
            cells.extend(kinds.iter().map(|kind| line.holds[kind].to_string()));
            cells.push(line.changed_at.map(date_and_time).unwrap_or_default());
            cells
        };
        let header = [&["memory", "entries"], kinds.as_slice(), &["changed (UTC)"]].concat();
        let numbers = [&["entries"], kinds.as_slice()].concat();
        let lines = self.0.iter().map(line).collect();
        vec![Section::Table(Grid::new(&header, &numbers, lines))]
    }
}

/// What became of a lesson.
#[derive(Clone, Debug, Serialize)]
pub struct TaughtView {
    memory: MemoryName,
    /// Its entry; `None` if the memory had it.
    entry: Option<u64>,
    action: Action,
    /// The entry that says so already.
    known: Option<u64>,
    conflicts: Vec<ConflictLine>,
}

impl TaughtView {
    /// Of a lesson, and of what the memory made of it.
    pub fn of(memory: &MemoryName, lesson: &Lesson, taught: &Taught) -> Self {
        let (memory, action) = (memory.clone(), lesson.action.clone());
        match taught {
            Taught::Entry { seq, conflicts } => {
                let conflicts = conflicts.iter().map(|it| ConflictLine::of(*seq, it)).collect();
                Self { memory, entry: Some(*seq), action, known: None, conflicts }
            }
            Taught::Known { seq } => {
                Self { memory, entry: None, action, known: Some(*seq), conflicts: Vec::new() }
            }
        }
    }
}

impl View for TaughtView {
    fn sections(&self) -> Vec<Section> {
        let Self { memory, entry, action, .. } = self;
        let line =
            entry.map(|seq| format!("entry {seq} of `{memory}`: {} {action}\n", action.verb()));
        line.map(Section::Text).into_iter().collect()
    }
}

/// What became of several lessons.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct AllTaughtView(pub Vec<TaughtView>);

impl View for AllTaughtView {
    fn sections(&self) -> Vec<Section> {
        let text = |section| match section {
            Section::Text(text) => Some(text),
            _ => None,
        };
        let lines = self.0.iter().flat_map(View::sections).filter_map(text);
        vec![Section::Text(lines.collect())]
    }
}

/// What became of the lessons of a file.
#[derive(Clone, Debug, Serialize)]
pub struct ImportedView {
    pub memory: MemoryName,
    /// The new entries.
    pub entries: Vec<u64>,
    /// How many lessons the memory had.
    pub known: usize,
    pub conflicts: Vec<ConflictLine>,
}

impl View for ImportedView {
    fn sections(&self) -> Vec<Section> {
        let memory = &self.memory;
        vec![Section::Text(match (self.entries.first(), self.entries.last()) {
            (Some(first), Some(last)) => format!("entries {first} to {last} of `{memory}`\n"),
            _ => format!("nothing new for `{memory}`\n"),
        })]
    }
}
