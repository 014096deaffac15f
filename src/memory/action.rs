//! What a user can do to a memory: a closed set, and who did it for which reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::memory::{MemoryError, Sentence};
use proofmill_base::ids::RunId;
use proofmill_udfs::text::negation::negation;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// A fact is missing, or a new one is to be used.
    Add {
        fact: Sentence,
        /// The question that it was said for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Sentence>,
    },
    /// A fact is true, whatever the model believes.
    Affirm {
        fact: Sentence,
        /// The question that it was said for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Sentence>,
    },
    /// A fact is false: it is retired, and its negation becomes a fact.
    Negate {
        fact: Sentence,
        negation: Sentence,
        /// The question that it was said for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Sentence>,
    },
    /// Reasoning is bad: these premises, in any order, do not entail this hypothesis.
    Block {
        hypothesis: Sentence,
        /// The premises, at least one.
        premises: Vec<Sentence>,
    },
    /// An answer is right; its premises are noted as facts.
    Confirm {
        question: Sentence,
        /// Its answer from now on.
        answer: Sentence,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        premises: Vec<Sentence>,
    },
    /// A fact is irrelevant for a question.
    Exclude { fact: Sentence, question: Sentence },
    /// A fact of the memory is to be used for a question.
    Force { fact: Sentence, question: Sentence },
    /// An earlier entry does not count any more; undoing this one makes it count again.
    Undo {
        /// Number of the earlier entry.
        entry: u64,
    },
}

/// An action with its circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    pub action: Action,
    pub author: String,
    pub reason: Option<String>,
    /// The proof that prompted it.
    pub proof: Option<String>,
    /// The run that has the proof.
    pub run: Option<RunId>,
}

/// The name of an action, as commands and import files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// [`Action::Add`]
    Add,
    /// [`Action::Affirm`]
    Affirm,
    /// [`Action::Negate`]
    Negate,
    /// [`Action::Block`]
    Block,
    /// [`Action::Confirm`]
    Confirm,
    /// [`Action::Exclude`]
    Exclude,
    /// [`Action::Force`]
    Force,
    /// [`Action::Undo`]
    Undo,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Add,
        Self::Affirm,
        Self::Negate,
        Self::Block,
        Self::Confirm,
        Self::Exclude,
        Self::Force,
        Self::Undo,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Affirm => "affirm",
            Self::Negate => "negate",
            Self::Block => "block",
            Self::Confirm => "confirm",
            Self::Exclude => "exclude",
            Self::Force => "force",
            Self::Undo => "undo",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Action {
    /// `fact` is false; what is true instead is made by rule unless it is given.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoNegation`] when it is not given and no rule applies.
    pub fn negate(
        fact: Sentence,
        instead: Option<Sentence>,
        question: Option<Sentence>,
    ) -> Result<Self, MemoryError> {
        let made = || match negation(fact.as_str()) {
            Some(made) => made.parse(),
            None => Err(MemoryError::NoNegation { fact: fact.to_string() }),
        };
        let negation = instead.map_or_else(made, Ok)?;
        Ok(Self::Negate { fact, negation, question })
    }

    /// These premises do not entail `hypothesis`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoPremises`] when there are none.
    pub fn block(hypothesis: Sentence, premises: Vec<Sentence>) -> Result<Self, MemoryError> {
        if premises.is_empty() {
            return Err(MemoryError::NoPremises);
        }
        Ok(Self::Block { hypothesis, premises })
    }

    /// Its name.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Add { .. } => Verb::Add,
            Self::Affirm { .. } => Verb::Affirm,
            Self::Negate { .. } => Verb::Negate,
            Self::Block { .. } => Verb::Block,
            Self::Confirm { .. } => Verb::Confirm,
            Self::Exclude { .. } => Verb::Exclude,
            Self::Force { .. } => Verb::Force,
            Self::Undo { .. } => Verb::Undo,
        }
    }

    /// The fact that it brings in, if it brings one in.
    pub fn new_fact(&self) -> Option<&Sentence> {
        match self {
            Self::Add { fact, .. } | Self::Affirm { fact, .. } => Some(fact),
            Self::Negate { negation, .. } => Some(negation),
            Self::Block { .. }
            | Self::Confirm { .. }
            | Self::Exclude { .. }
            | Self::Force { .. }
            | Self::Undo { .. } => None,
        }
    }
}

impl fmt::Display for Action {
    /// What is done, without its name: one line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { fact, .. } | Self::Affirm { fact, .. } => write!(f, "{fact}"),
            Self::Negate { fact, negation, .. } => write!(f, "{fact} -> {negation}"),
            Self::Block { hypothesis, premises } => {
                write!(f, "{} does not entail {hypothesis}", joined(premises))
            }
            Self::Confirm { question, answer, .. } => write!(f, "{question} -> {answer}"),
            Self::Exclude { fact, question } => write!(f, "{fact} (not for: {question})"),
            Self::Force { fact, question } => write!(f, "{fact} (for: {question})"),
            Self::Undo { entry } => write!(f, "entry {entry}"),
        }
    }
}

/// Premises on one line.
pub fn joined(premises: &[Sentence]) -> String {
    premises.iter().map(Sentence::as_str).collect::<Vec<_>>().join(" + ")
}
