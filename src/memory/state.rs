//! What a memory amounts to: a pure fold over its entries.

use indexmap::IndexMap;

use crate::memory::conflict::{Conflict, Stance};
use crate::memory::sentence::keys;
use crate::memory::{Action, JournalEntry, MemoryError, Row, RowKind, Sentence, Source};
use proofmill_base::digest::Digest;
use proofmill_base::suggest;

/// What a memory holds. Equal sentences are one, whatever their clothes; the first spelling is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    facts: IndexMap<String, Fact>,
    /// By hypothesis and premises.
    blocked: IndexMap<(String, Vec<String>), Row>,
    confirmed: IndexMap<String, Row>,
    /// By question and fact: excluded or forced, as was said last.
    steered: IndexMap<(String, String), Row>,
}

#[derive(Clone, Debug, PartialEq)]
struct Fact {
    row: Row,
    stance: Stance,
}

/// What an entry did to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Changed,
    /// Nothing did: the entry of this number says so already.
    Known(u64),
}

/// For each entry, the later entry that undoes it, if one does.
pub(crate) fn undone_by(entries: &[JournalEntry]) -> Vec<Option<u64>> {
    let mut undone = vec![None; entries.len()];
    // What undoes an entry comes after it, so from the end all that matters is known.
    for at in (0..entries.len()).rev() {
        if let (None, Action::Undo { entry }) = (undone[at], &entries[at].action)
            && let Some(target) = position(*entry).filter(|target| *target < at)
        {
            undone[target] = undone[target].or(Some(entries[at].seq));
        }
    }
    undone
}

/// Where the entry of a number stands among all entries.
fn position(seq: u64) -> Option<usize> {
    usize::try_from(seq.checked_sub(1)?).ok()
}

impl State {
    /// What `entries`, which are those from the first on, amount to.
    pub fn of(entries: &[JournalEntry]) -> Self {
        let mut state = Self::default();
        for (entry, undone) in entries.iter().zip(undone_by(entries)) {
            if undone.is_none() {
                state.apply(entry);
            }
        }
        state
    }

    /// Takes in an entry that counts. What `undo` does is decided before, over all entries.
    pub(crate) fn apply(&mut self, entry: &JournalEntry) -> Applied {
        match &entry.action {
            Action::Add { fact, question } => self.add(entry, Source::Added, fact, question),
            Action::Affirm { fact, question } => self.add(entry, Source::Affirmed, fact, question),
            Action::Negate { fact, negation, question } => {
                let retired = self.facts.shift_remove(&fact.key()).is_some();
                match self.add(entry, Source::Negated, negation, question) {
                    Applied::Known(_) if retired => Applied::Changed,
                    applied => applied,
                }
            }
            Action::Block { hypothesis, premises } => {
                let key = (hypothesis.key(), keys(premises));
                if let Some(known) = self.blocked.get(&key) {
                    return Applied::Known(known.entry);
                }
                let row = Row {
                    hypothesis: Some(hypothesis.clone()),
                    premises: premises.clone(),
                    ..Row::of(entry, RowKind::Blocked, Source::Blocked)
                };
                self.blocked.insert(key, row);
                Applied::Changed
            }
            Action::Confirm { question, answer, premises } => {
                self.confirm(entry, question, answer, premises)
            }
            Action::Exclude { fact, question } => {
                self.steer(entry, RowKind::Excluded, Source::Excluded, fact, question)
            }
            Action::Force { fact, question } => {
                self.steer(entry, RowKind::Forced, Source::Forced, fact, question)
            }
            Action::Undo { .. } => Applied::Changed,
        }
    }

    fn add(
        &mut self,
        entry: &JournalEntry,
        source: Source,
        fact: &Sentence,
        question: &Option<Sentence>,
    ) -> Applied {
        let known = self.facts.get(&fact.key()).map(|known| &known.row);
        if let Some(known) = known {
            let affirms = source == Source::Affirmed && known.source != Source::Affirmed;
            if known.kind == RowKind::Fact && !affirms {
                return Applied::Known(known.entry);
            }
        }
        let fact = known.and_then(|known| known.fact.clone()).unwrap_or_else(|| fact.clone());
        let question = question.clone();
        self.hold(Row { fact: Some(fact), question, ..Row::of(entry, RowKind::Fact, source) });
        Applied::Changed
    }

    fn hold(&mut self, row: Row) {
        if let Some(fact) = &row.fact {
            let (key, stance) = (fact.key(), Stance::of(fact));
            self.facts.insert(key, Fact { row, stance });
        }
    }

    fn confirm(
        &mut self,
        entry: &JournalEntry,
        question: &Sentence,
        answer: &Sentence,
        premises: &[Sentence],
    ) -> Applied {
        let mut applied = match self.confirmed.get(&question.key()) {
            Some(known)
                if known.answer.as_ref().map(Sentence::key) == Some(answer.key())
                    && keys(&known.premises) == keys(premises) =>
            {
                Applied::Known(known.entry)
            }
            _ => Applied::Changed,
        };
        let (confirmed, kind) = (Some(question.clone()), Source::Confirmed);
        for premise in premises {
            if !self.facts.contains_key(&premise.key()) {
                let (fact, question) = (Some(premise.clone()), confirmed.clone());
                self.hold(Row { fact, question, ..Row::of(entry, RowKind::Noted, kind) });
                applied = Applied::Changed;
            }
        }
        if applied == Applied::Changed {
            let row = Row {
                question: confirmed,
                answer: Some(answer.clone()),
                premises: premises.to_vec(),
                ..Row::of(entry, RowKind::Confirmed, kind)
            };
            self.confirmed.insert(question.key(), row);
        }
        applied
    }

    fn steer(
        &mut self,
        entry: &JournalEntry,
        kind: RowKind,
        source: Source,
        fact: &Sentence,
        question: &Sentence,
    ) -> Applied {
        let key = (question.key(), fact.key());
        if let Some(known) = self.steered.get(&key).filter(|known| known.kind == kind) {
            return Applied::Known(known.entry);
        }
        let (fact, question) = (Some(fact.clone()), Some(question.clone()));
        self.steered.insert(key, Row { fact, question, ..Row::of(entry, kind, source) });
        Applied::Changed
    }

    /// All that it holds, in the order of the entries.
    pub fn rows(&self) -> Vec<Row> {
        let facts = self.facts.values().map(|fact| fact.row.clone());
        // What is excluded or forced is spelled as the fact itself, so that both have one id. A fact
        // that is retired cannot be forced.
        let steered =
            self.steered.iter().filter_map(|((_, fact), row)| match self.facts.get(fact) {
                Some(fact) => Some(Row { fact: fact.row.fact.clone(), ..row.clone() }),
                None => (row.kind == RowKind::Excluded).then(|| row.clone()),
            });
        let others = self.blocked.values().chain(self.confirmed.values()).cloned();
        let mut rows: Vec<Row> = facts.chain(steered).chain(others).collect();
        rows.sort_by_key(|row| (row.entry, row.kind));
        rows
    }

    /// The fact that equals `fact`, as it is spelled here.
    pub fn fact(&self, fact: &Sentence) -> Option<&Row> {
        self.facts.get(&fact.key()).map(|fact| &fact.row)
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Digest of all that it holds: the same whenever the rows are.
    pub fn sha256(&self) -> Digest {
        let rows = self.rows();
        // Rows are texts, numbers and lists of texts, which JSON always can write.
        Digest::of(&serde_json::to_vec(&rows).unwrap_or_default())
    }

    /// The facts that `fact` conflicts with.
    pub fn conflicts_with(&self, fact: &Sentence) -> Vec<Conflict> {
        let (key, stance) = (fact.key(), Stance::of(fact));
        let others = self.facts.iter().filter(|(other, _)| **other != key);
        let clash = |(_, other): (&String, &Fact)| {
            let clash = stance.clash(&other.stance)?;
            Some(Conflict { clash, fact: fact.clone(), with: other.row.clone() })
        };
        others.filter_map(clash).collect()
    }

    /// All facts that conflict with earlier ones.
    pub fn conflicts(&self) -> Vec<(Row, Row, Conflict)> {
        let mut found = Vec::new();
        let facts: Vec<&Fact> = self.facts.values().collect();
        for (at, later) in facts.iter().enumerate() {
            for earlier in &facts[..at] {
                if let (Some(clash), Some(fact)) =
                    (later.stance.clash(&earlier.stance), &later.row.fact)
                {
                    let with = earlier.row.clone();
                    let conflict = Conflict { clash, fact: fact.clone(), with: with.clone() };
                    found.push((with, later.row.clone(), conflict));
                }
            }
        }
        found
    }

    /// Whether `action` can follow `entries`, of which this is the state.
    pub(crate) fn accepts(
        &self,
        action: &Action,
        entries: &[JournalEntry],
    ) -> Result<(), MemoryError> {
        match action {
            Action::Force { fact, .. } if !self.facts.contains_key(&fact.key()) => {
                let known = || self.facts.values().filter_map(|fact| fact.row.fact.as_ref());
                let near = suggest::nearest(fact.as_str(), known().map(Sentence::as_str));
                let near = near.map(str::to_owned);
                Err(MemoryError::UnknownFact { fact: fact.to_string(), near })
            }
            Action::Undo { entry } => {
                let at = position(*entry).filter(|at| *at < entries.len());
                let Some(at) = at else {
                    return Err(MemoryError::NoEntry { entry: *entry, entries: entries.len() });
                };
                match undone_by(entries)[at] {
                    Some(by) => Err(MemoryError::UndoneBefore { entry: *entry, by }),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
