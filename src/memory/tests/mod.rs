//! Tests of memories as a whole: conflicts, the fold, the chain in the store, import files.

mod conflict;
mod import;
mod journal;
mod state;

use chrono::DateTime;

use crate::memory::entry::Place;
use crate::memory::{Action, JournalEntry, Lesson, Sentence};

fn sentence(text: &str) -> Sentence {
    text.parse().unwrap()
}

fn lesson(action: Action) -> Lesson {
    Lesson { action, author: "ada".to_owned(), reason: None, proof: None, run: None }
}

fn add(fact: &str) -> Action {
    Action::Add { fact: sentence(fact), question: None }
}

fn negate(fact: &str) -> Action {
    Action::negate(sentence(fact), None, None).unwrap()
}

fn force(fact: &str, question: &str) -> Action {
    Action::Force { fact: sentence(fact), question: sentence(question) }
}

fn exclude(fact: &str, question: &str) -> Action {
    Action::Exclude { fact: sentence(fact), question: sentence(question) }
}

fn undo(entry: u64) -> Action {
    Action::Undo { entry }
}

/// The actions as entries, without a store.
fn entries(actions: impl IntoIterator<Item = Action>) -> Vec<JournalEntry> {
    let place = |seq| Place {
        memory: "science".parse().unwrap(),
        seq,
        prev: None,
        nonce: String::new(),
        t_utc: DateTime::UNIX_EPOCH,
    };
    (1..).zip(actions).map(|(seq, action)| JournalEntry::new(place(seq), &lesson(action))).collect()
}
