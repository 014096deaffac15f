//! What rows say about where a fact comes from.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value as Json};

use crate::trace::document::{Entry, Origin, SourceRow, TaughtFact};
use crate::trace::row::JsonRow;
use proofmill_base::sentence::fact_id;

/// What is known about where a fact comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// What it says, as it is spelt nearest by.
    pub fact: Option<String>,
    /// Tables that hold the sentence, nearest first.
    pub through: Vec<String>,
    pub lessons: Vec<TaughtFact>,
    pub entries: Vec<Entry>,
    /// Rows that nothing before them explains, by their table.
    pub rows: BTreeMap<String, SourceRow>,
    /// Place and question of the lesson, where a table on the way kept them.
    pub hint: Option<(i64, String)>,
}

impl Known {
    /// Who or what put the fact there: lessons, narrowed to the one that a table on the way names;
    /// entries. Rows that nothing explains count where it was not taught: a query may look at
    /// others that have the sentence for reasons of their own.
    pub fn origins(&self) -> Vec<Origin> {
        let is_meant = |lesson: &&TaughtFact| match &self.hint {
            Some((place, question)) => lesson.place == *place && lesson.question_id == *question,
            None => true,
        };
        let mut lessons: Vec<TaughtFact> = self.lessons.iter().filter(is_meant).cloned().collect();
        if lessons.is_empty() {
            lessons.clone_from(&self.lessons);
        }
        let lessons = lessons.into_iter().map(Origin::Lesson);
        let taught: Vec<Origin> =
            lessons.chain(self.entries.iter().cloned().map(Origin::Entry)).collect();
        match taught.is_empty() {
            true => self.rows.values().cloned().map(Origin::Row).collect(),
            false => taught,
        }
    }
}

/// For each fact the lesson of one stage that taught it first, with those that said it again, and
/// what it says.
pub fn first_lessons(
    stage: &str,
    rows: &[JsonRow],
) -> HashMap<String, (TaughtFact, Option<String>)> {
    let mut ordered: Vec<&JsonRow> = rows.iter().collect();
    ordered.sort_by_key(|row| row.whole("place"));
    let mut first: HashMap<String, (TaughtFact, Option<String>)> = HashMap::new();
    for row in ordered {
        let (Some(fact_id), Some(place)) = (row.text("fact_id"), row.whole("place")) else {
            continue;
        };
        match first.get_mut(&fact_id) {
            Some((lesson, _)) => lesson.again.push(place),
            None => {
                let lesson = TaughtFact {
                    stage: stage.to_owned(),
                    place,
                    round: row.whole("round").unwrap_or(place),
                    question_id: row.text("question_id").unwrap_or_default(),
                    question: row.text("question"),
                    answer: row.text("answer"),
                    correct: row.flag("correct"),
                    proof_id: row.text("proof_id"),
                    again: Vec::new(),
                };
                first.insert(fact_id, (lesson, row.text("fact")));
            }
        }
    }
    first
}

/// For each of the `facts`, by its id, the first of the `rows` that holds it in one of the
/// `columns`.
pub fn holders(
    (stage, kind): (&str, &str),
    columns: &[&str],
    rows: &[JsonRow],
    facts: &[String],
) -> HashMap<String, (JsonRow, SourceRow)> {
    let mut found: HashMap<String, (JsonRow, SourceRow)> = HashMap::new();
    for row in rows {
        for column in columns {
            let Some(id) = row.text(column).map(|text| fact_id(&text)) else { continue };
            if !facts.contains(&id) {
                continue;
            }
            let source = || SourceRow {
                stage: stage.to_owned(),
                stage_kind: kind.to_owned(),
                column: (*column).to_owned(),
                rows: 0,
                columns: scalars(row.others(&[column])),
            };
            found.entry(id).or_insert_with(|| (row.clone(), source())).1.rows += 1;
            break;
        }
    }
    found
}

/// The entries of a memory that say a fact, in their order.
pub fn entries(stage: &str, rows: &[JsonRow], fact: &str) -> Vec<Entry> {
    let says = |row: &&JsonRow| row.text("fact").is_some_and(|text| fact_id(&text) == fact);
    let mut all: Vec<&JsonRow> = rows.iter().filter(says).collect();
    all.sort_by_key(|row| row.whole("entry"));
    let entry = |row: &JsonRow| Entry {
        stage: stage.to_owned(),
        columns: scalars(row.others(&["fact", "fact_id"])),
    };
    all.into_iter().map(entry).collect()
}

/// Place and question of a lesson, if the row of another table kept both.
pub fn hint(row: &JsonRow) -> Option<(i64, String)> {
    Some((row.whole("place")?, row.text("question_id")?))
}

fn scalars(columns: Map<String, Json>) -> Map<String, Json> {
    let is_list = |value: &Json| value.is_array() || value.is_object();
    columns.into_iter().filter(|(_, value)| !is_list(value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(all: Json) -> Vec<JsonRow> {
        JsonRow(Map::from_iter([("all".to_owned(), all)])).rows("all")
    }

    fn lesson(stage: &str, place: i64) -> TaughtFact {
        TaughtFact {
            stage: stage.into(),
            place,
            question_id: format!("q{place}"),
            ..TaughtFact::default()
        }
    }

    #[test]
    fn the_first_lesson_counts_and_the_others_say_it_again() {
        let rows = rows(json!([
            {"place": 9, "round": 5, "question_id": "q9", "fact_id": "f"},
            {"place": 2, "round": 1, "question_id": "q2", "fact_id": "f", "fact": "F", "answer": "yes",
             "correct": false},
            {"place": 3, "round": 2, "question_id": "q3", "fact_id": "g"},
            {"place": 4, "round": 2, "question_id": "q4", "fact_id": null},
        ]));
        let first = first_lessons("lessons", &rows);
        assert_eq!(first.len(), 2);
        let (of_f, says) = &first["f"];
        assert_eq!((of_f.place, of_f.round, &*of_f.question_id), (2, 1, "q2"));
        assert_eq!((of_f.again.as_slice(), of_f.correct), (&[9][..], Some(false)));
        assert_eq!(says.as_deref(), Some("F"), "in the spelling of the first");
    }

    #[test]
    fn a_table_on_the_way_tells_which_lesson() {
        let mut known =
            Known { lessons: vec![lesson("one", 1), lesson("two", 4)], ..Known::default() };
        assert_eq!(known.origins().len(), 2, "nothing tells");
        known.hint = Some((4, "q4".to_owned()));
        assert_eq!(known.origins(), [Origin::Lesson(lesson("two", 4))]);
        known.hint = Some((4, "q5".to_owned()));
        assert_eq!(known.origins().len(), 2, "a hint at nothing says nothing");
        known.rows.insert("facts".to_owned(), SourceRow::default());
        assert_eq!(known.origins().len(), 2, "somebody taught it");
        known.lessons.clear();
        assert_eq!(known.origins(), [Origin::Row(SourceRow::default())]);
    }

    #[test]
    fn rows_hold_a_sentence_in_any_spelling() {
        let rows = rows(json!([
            {"fact": "Copper is  not MAGNETIC", "id": 1, "list": [1]},
            {"fact": "Copper is not magnetic", "id": 2},
            {"fact": "Iron is magnetic", "id": 3},
        ]));
        let facts = [fact_id("copper is not magnetic"), fact_id("gold is dear")];
        let found = holders(("facts", "read"), &["fact"], &rows, &facts);
        assert_eq!(found.len(), 1);
        let (_, row) = &found[&facts[0]];
        assert_eq!((row.rows, &row.columns), (2, json!({"id": 1}).as_object().unwrap()));
    }
}
