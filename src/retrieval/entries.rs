//! Four ways to index a memory, as compared in appendix A of the TeachMe paper: which text stands
//! for a fact. The query is always the question.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use proofmill_base::digest::Digest;
use proofmill_base::sentence::normalized;
use proofmill_settings::search::IndexBy;

/// One row of a memory: a fact and the question that it was taught for, which may be empty.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRow<'a> {
    pub fact: &'a str,
    /// The question, or an empty text.
    pub question: &'a str,
}

/// One entry of the index, in the order in which entries are to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEntry {
    /// What is indexed.
    pub text: String,
    /// What is recalled: the fact as first spelled.
    pub fact: String,
    /// The memory rows behind the entry, ascending.
    pub rows: Vec<u32>,
}

/// True if equal facts share an entry whatever their questions.
const fn is_per_fact(by: IndexBy) -> bool {
    matches!(by, IndexBy::Fact | IndexBy::RelevantQuestions)
}

/// The entries of a memory, in order of first occurrence. Facts and questions are the same if they
/// differ in case and white space only; the first spelling is kept. Rows without a fact give no
/// entry.
pub fn memory_entries<'a>(
    rows: impl IntoIterator<Item = MemoryRow<'a>>,
    indexing: IndexBy,
) -> Vec<MemoryEntry> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut by_key: HashMap<(String, String), usize> = HashMap::new();
    for (number, row) in (0u32..).zip(rows) {
        let fact = normalized(row.fact);
        if fact.is_empty() {
            continue;
        }
        let question = normalized(row.question);
        let key_question = if is_per_fact(indexing) { String::new() } else { question.clone() };
        let index = match by_key.entry((fact, key_question)) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                groups.push(Group { fact: row.fact, questions: Vec::new(), rows: Vec::new() });
                *entry.insert(groups.len() - 1)
            }
        };
        let group = &mut groups[index];
        group.rows.push(number);
        if !question.is_empty() && group.questions.iter().all(|(folded, _)| *folded != question) {
            group.questions.push((question, row.question));
        }
    }
    groups.into_iter().map(|group| group.into_entry(indexing)).collect()
}

/// An entry for each row of a memory, in their order, with the row's own question only: rows with the
/// same text stay apart. Rows without a fact give no entry.
pub fn row_entries<'a>(
    rows: impl IntoIterator<Item = MemoryRow<'a>>,
    indexing: IndexBy,
) -> Vec<MemoryEntry> {
    let entry = |(number, row): (u32, MemoryRow<'a>)| {
        let question = normalized(row.question);
        let questions = if question.is_empty() { vec![] } else { vec![(question, row.question)] };
        Group { fact: row.fact, questions, rows: vec![number] }.into_entry(indexing)
    };
    let rows = (0u32..).zip(rows).filter(|(_, row)| !normalized(row.fact).is_empty());
    rows.map(entry).collect()
}

/// A row of a memory that begins an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstRow {
    /// Its number among all rows, from 0.
    pub row: u64,
    /// How many rows are behind the entry, itself included.
    pub rows: u32,
}

/// Finds the rows that begin an entry, in the order of entries as [`memory_entries`] gives them, from
/// rows that come one by one. Holds a digest for each entry and no text.
pub struct FirstRows {
    /// `None`: each row is an entry.
    indexing: Option<IndexBy>,
    by_key: HashMap<Digest, usize>,
    found: Vec<FirstRow>,
    next: u64,
}

impl FirstRows {
    /// No rows yet, of entries as [`memory_entries`] gives them.
    pub fn new(indexing: IndexBy) -> Self {
        Self { indexing: Some(indexing), by_key: HashMap::new(), found: Vec::new(), next: 0 }
    }

    /// No rows yet, of entries as [`row_entries`] gives them.
    pub fn of_rows() -> Self {
        Self { indexing: None, by_key: HashMap::new(), found: Vec::new(), next: 0 }
    }

    /// Takes the next row.
    pub fn add(&mut self, row: MemoryRow<'_>) {
        let number = self.next;
        self.next += 1;
        let fact = normalized(row.fact);
        if fact.is_empty() {
            return;
        }
        let Some(indexing) = self.indexing else {
            return self.found.push(FirstRow { row: number, rows: 1 });
        };
        let per_fact = is_per_fact(indexing);
        let question = if per_fact { String::new() } else { normalized(row.question) };
        let key = Digest::of(format!("{}:{fact}{question}", fact.len()).as_bytes());
        match self.by_key.entry(key) {
            Entry::Occupied(entry) => self.found[*entry.get()].rows += 1,
            Entry::Vacant(entry) => {
                entry.insert(self.found.len());
                self.found.push(FirstRow { row: number, rows: 1 });
            }
        }
    }

    /// All of them.
    pub fn finish(self) -> Vec<FirstRow> {
        self.found
    }
}

/// The rows that become one entry.
struct Group<'a> {
    fact: &'a str,
    /// Different questions, folded and as first spelled.
    questions: Vec<(String, &'a str)>,
    rows: Vec<u32>,
}

impl Group<'_> {
    fn into_entry(self, indexing: IndexBy) -> MemoryEntry {
        let questions = self.questions.iter().map(|(_, question)| *question);
        let parts: Vec<&str> = match indexing {
            IndexBy::Fact => vec![self.fact],
            IndexBy::Question => questions.collect(),
            IndexBy::QuestionFact => questions.chain([self.fact]).collect(),
            IndexBy::RelevantQuestions => [self.fact].into_iter().chain(questions).collect(),
        };
        MemoryEntry { text: parts.join(" "), fact: self.fact.to_owned(), rows: self.rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [MemoryRow<'static>; 6] = [
        MemoryRow { fact: "Iron is a metal.", question: "Is iron a metal?" },
        MemoryRow { fact: "A penny is made of copper.", question: "Can a magnet attract a penny?" },
        MemoryRow { fact: "iron  IS a metal. ", question: "Does a magnet attract iron?" },
        MemoryRow { fact: "Iron is a metal.", question: "is iron\ta METAL?" },
        MemoryRow { fact: " ", question: "What?" },
        MemoryRow { fact: "Metals conduct electricity.", question: "" },
    ];

    fn entries(indexing: IndexBy) -> Vec<(String, String, Vec<u32>)> {
        let entries = memory_entries(ROWS, indexing).into_iter();
        entries.map(|entry| (entry.text, entry.fact, entry.rows)).collect()
    }

    fn entry(text: &str, fact: &str, rows: &[u32]) -> (String, String, Vec<u32>) {
        (text.to_owned(), fact.to_owned(), rows.to_vec())
    }

    const IRON: &str = "Iron is a metal.";
    const PENNY: &str = "A penny is made of copper.";
    const METALS: &str = "Metals conduct electricity.";

    #[test]
    fn facts_are_unique_and_keep_their_first_spelling() {
        let expected =
            [entry(IRON, IRON, &[0, 2, 3]), entry(PENNY, PENNY, &[1]), entry(METALS, METALS, &[5])];
        assert_eq!(entries(IndexBy::Fact), expected);
    }

    #[test]
    fn pairs_have_one_entry_each() {
        let expected = [
            entry("Is iron a metal?", IRON, &[0, 3]),
            entry("Can a magnet attract a penny?", PENNY, &[1]),
            entry("Does a magnet attract iron?", "iron  IS a metal. ", &[2]),
            entry("", METALS, &[5]),
        ];
        assert_eq!(entries(IndexBy::Question), expected);

        let expected = [
            entry("Is iron a metal? Iron is a metal.", IRON, &[0, 3]),
            entry("Can a magnet attract a penny? A penny is made of copper.", PENNY, &[1]),
            entry("Does a magnet attract iron? iron  IS a metal. ", "iron  IS a metal. ", &[2]),
            entry(METALS, METALS, &[5]),
        ];
        assert_eq!(entries(IndexBy::QuestionFact), expected);
    }

    #[test]
    fn a_fact_gathers_its_questions_in_order() {
        let expected = [
            entry(
                "Iron is a metal. Is iron a metal? Does a magnet attract iron?",
                IRON,
                &[0, 2, 3],
            ),
            entry("A penny is made of copper. Can a magnet attract a penny?", PENNY, &[1]),
            entry(METALS, METALS, &[5]),
        ];
        assert_eq!(entries(IndexBy::RelevantQuestions), expected);
    }

    #[test]
    fn first_rows_are_those_of_the_entries() {
        for indexing in IndexBy::ALL {
            let mut first = FirstRows::new(indexing);
            ROWS.into_iter().for_each(|row| first.add(row));
            let expected = memory_entries(ROWS, indexing)
                .into_iter()
                .map(|entry| FirstRow { row: entry.rows[0].into(), rows: entry.rows.len() as u32 });
            assert_eq!(first.finish(), expected.collect::<Vec<_>>(), "{indexing:?}");
        }
    }

    #[test]
    fn rows_with_the_same_text_are_entries_of_their_own() {
        let expected = [
            entry("Is iron a metal? Iron is a metal.", IRON, &[0]),
            entry("Can a magnet attract a penny? A penny is made of copper.", PENNY, &[1]),
            entry("Does a magnet attract iron? iron  IS a metal. ", "iron  IS a metal. ", &[2]),
            entry("is iron\ta METAL? Iron is a metal.", IRON, &[3]),
            entry(METALS, METALS, &[5]),
        ];
        let entries = row_entries(ROWS, IndexBy::QuestionFact).into_iter();
        let entries: Vec<_> = entries.map(|entry| (entry.text, entry.fact, entry.rows)).collect();
        assert_eq!(entries, expected);
        let mut first = FirstRows::of_rows();
        ROWS.into_iter().for_each(|row| first.add(row));
        assert_eq!(first.finish(), [0, 1, 2, 3, 5].map(|row| FirstRow { row, rows: 1 }));
    }
}
