//! What a memory holds, row by row: the table that a `memory` stage reads.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::memory::action::joined;
use crate::memory::{JournalEntry, Sentence};

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    Fact,
    /// A premise of an answer that a user confirmed.
    Noted,
    /// Premises that do not entail a hypothesis.
    Blocked,
    /// A question with its answer.
    Confirmed,
    /// A fact that is irrelevant for a question.
    Excluded,
    /// A fact that is to be used for a question.
    Forced,
}

impl RowKind {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Noted => "noted",
            Self::Blocked => "blocked",
            Self::Confirmed => "confirmed",
            Self::Excluded => "excluded",
            Self::Forced => "forced",
        }
    }
}

/// By which action a row came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `add`
    Added,
    /// `add --true`
    Affirmed,
    /// `negate`
    Negated,
    /// `block`
    Blocked,
    /// `confirm`
    Confirmed,
    /// `exclude`
    Excluded,
    /// `force`
    Forced,
}

impl Source {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Affirmed => "affirmed",
            Self::Negated => "negated",
            Self::Blocked => "blocked",
            Self::Confirmed => "confirmed",
            Self::Excluded => "excluded",
            Self::Forced => "forced",
        }
    }
}

/// One thing that a memory holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub kind: RowKind,
    pub source: Source,
    /// The fact, of all kinds but `blocked` and `confirmed`.
    pub fact: Option<Sentence>,
    /// The question that it is for, or was said for.
    pub question: Option<Sentence>,
    /// The answer of a confirmed question.
    pub answer: Option<Sentence>,
    /// The hypothesis of blocked reasoning.
    pub hypothesis: Option<Sentence>,
    /// The premises of blocked reasoning, or of a confirmed answer.
    pub premises: Vec<Sentence>,
    pub author: String,
    pub reason: Option<String>,
    /// The proof that prompted it.
    pub proof_id: Option<String>,
    /// Number of the entry.
    pub entry: u64,
    /// When the entry was written.
    pub created_at: DateTime<Utc>,
}

impl Row {
    /// A row by `entry`, with nothing in it yet.
    pub(crate) fn of(entry: &JournalEntry, kind: RowKind, source: Source) -> Self {
        Self {
            kind,
            source,
            fact: None,
            question: None,
            answer: None,
            hypothesis: None,
            premises: Vec::new(),
            author: entry.author.clone(),
            reason: entry.reason.clone(),
            proof_id: entry.proof.clone(),
            entry: entry.seq,
            created_at: entry.t_utc,
        }
    }

    /// What it holds, on one line for people.
    pub fn text(&self) -> String {
        match (&self.fact, &self.hypothesis, &self.answer) {
            (Some(fact), _, _) => fact.to_string(),
            (None, Some(hypothesis), _) => {
                format!("{} does not entail {hypothesis}", joined(&self.premises))
            }
            (None, None, Some(answer)) => answer.to_string(),
            (None, None, None) => String::new(),
        }
    }
}
