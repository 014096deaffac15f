//! Import files: what they can say, and where they are wrong.

use super::{add, force, negate, sentence};
use crate::memory::{Action, MemoryError, read_lessons};

/// The lessons of a file `name` with this content.
fn read(name: &str, content: &str) -> Result<Vec<(String, crate::memory::Lesson)>, MemoryError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    read_lessons(&path.display().to_string(), "ada")
}

#[test]
fn every_action_can_be_written() {
    let lessons = read(
        "lessons.jsonl",
        r#"{"fact": "A penny is made of copper."}

{"action": "negate", "fact": "A magnet can attract copper.", "author": "bob", "reason": "tried it", "proof": "q#0/free"}
{"action": "negate", "fact": "All metals rust.", "as": "Gold does not rust."}
{"action": "affirm", "fact": "Iron rusts.", "question": "Why?"}
{"action": "block", "hypothesis": "H", "premises": ["P", "Q"]}
{"action": "confirm", "question": "Why?", "answer": "rust", "premises": "P [PREMISE] Q"}
{"action": "exclude", "fact": "Iron rusts.", "question": "Why?"}
{"action": "force", "fact": "Iron rusts.", "question": "Why?", "run": "20261121-021500123-k3f9qa"}
"#,
    )
    .unwrap();
    let premises = || vec![sentence("P"), sentence("Q")];
    let actions: Vec<Action> = lessons.iter().map(|(_, lesson)| lesson.action.clone()).collect();
    let (question, answer) = (sentence("Why?"), sentence("rust"));
    assert_eq!(actions[0], add("A penny is made of copper."));
    assert_eq!(actions[1], negate("A magnet can attract copper."));
    assert_eq!(
        actions[3],
        Action::Affirm { fact: sentence("Iron rusts."), question: Some(question.clone()) }
    );
    assert_eq!(actions[4], Action::block(sentence("H"), premises()).unwrap());
    assert_eq!(actions[5], Action::Confirm { question, answer, premises: premises() });
    assert_eq!(actions[7], force("Iron rusts.", "Why?"));
    assert!(lessons[0].0.ends_with("lessons.jsonl:1"), "{}", lessons[0].0);
    assert!(lessons[1].0.ends_with("lessons.jsonl:3"), "blank lines count: {}", lessons[1].0);
    assert_eq!((lessons[0].1.author.as_str(), lessons[1].1.author.as_str()), ("ada", "bob"));
    assert_eq!(lessons[1].1.proof.as_deref(), Some("q#0/free"));
    assert!(lessons[7].1.run.is_some());
}

#[test]
fn tables_are_read_too() {
    let lessons = read(
        "lessons.csv",
        "fact,action,reason,premises,hypothesis\n\"Copper, a metal, shines.\",,seen,,\n,block,\"two\nlines\",P[PREMISE]Q,H\nTin shines.,add,,,\n",
    )
    .unwrap();
    assert_eq!(lessons[0].1.action, add("Copper, a metal, shines."));
    assert_eq!(lessons[0].1.reason.as_deref(), Some("seen"));
    let premises = vec![sentence("P"), sentence("Q")];
    assert_eq!(lessons[1].1.action, Action::block(sentence("H"), premises).unwrap());
    assert!(lessons[2].0.ends_with("lessons.csv:5"), "{}", lessons[2].0);
}

#[test]
fn the_first_wrong_record_is_named_with_its_line() {
    for (content, line, said, help) in [
        ("{\"fact\": \"a\"}\n{\"fct\": \"b\"}\n", 2, "unknown field `fct`", "`fact`"),
        ("{\"fact\": \"a\"}\n{\"fact\": 3}\n", 2, "invalid type", "strings"),
        ("{\"fact\": \"a\"}\n{\"fact\": \n", 2, "character", "fix"),
        ("{\"action\": \"ad\", \"fact\": \"a\"}\n", 1, "no action `ad`", "did you mean `add`?"),
        ("{\"action\": \"undo\", \"fact\": \"a\"}\n", 1, "cannot undo entries", "teach undo"),
        (
            "{\"action\": \"negate\", \"fact\": \"All metals rust.\"}\n",
            1,
            "cannot be derived",
            "column `as`",
        ),
        ("{\"action\": \"block\", \"hypothesis\": \"H\"}\n", 1, "without a premise", "`premises`"),
        (
            "{\"action\": \"force\", \"fact\": \"a\"}\n",
            1,
            "`force` needs a `question`",
            "`question`",
        ),
        ("{\"fact\": \" \"}\n", 1, "is empty", "sentence"),
        ("{\"fact\": \"a\", \"run\": \"x\"}\n", 1, "run id", "`run`"),
    ] {
        let error = read("lessons.jsonl", content).unwrap_err();
        let place = format!("lessons.jsonl:{line}: ");
        assert!(error.to_string().contains(&place) && error.to_string().contains(said), "{error}");
        assert!(error.hint().contains(help), "{}", error.hint());
    }
}

#[test]
fn other_formats_are_refused() {
    assert!(read("lessons.txt", "Iron rusts.\n").unwrap_err().hint().contains(".jsonl"));
}
