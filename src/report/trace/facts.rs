//! What was recalled, and who or what put it into memory.

use crate::draw::cells::format_float;
use crate::draw::tree::Tree;
use crate::report::trace::words::{clean, columns, lines, short};
use crate::report::units::plural;
use crate::trace::document::{Origin, Recalled, SourceRow, TaughtFact, Trace};
use proofmill_base::styled::Styled;

/// Tables that a fact came through of which the names are shown.
const THROUGH_MAX: usize = 5;

/// What was recalled; nothing where there was no memory.
pub fn recalled(trace: &Trace) -> Option<Tree> {
    let by = trace.tables.get("recalled").map(|table| format!(" by {table}"));
    let text = match (trace.recalled.len(), &by) {
        (0, None) => return None,
        (0, Some(by)) => format!("nothing was recalled{by}"),
        (n, by) => format!("{} recalled{}", plural(n, "fact"), by.as_deref().unwrap_or_default()),
    };
    Some(Tree::new(text, trace.recalled.iter().map(fact).collect()))
}

fn fact(one: &Recalled) -> Tree {
    let rank = one.rank.map_or("-".to_owned(), |rank| rank.to_string());
    let score = one.score.map(|score| format!("  {}", format_float(score))).unwrap_or_default();
    let says = one.fact.as_deref().unwrap_or("(no table of the run says what it is)");
    let mut children: Vec<Tree> = one.origins.iter().map(origin).collect();
    if children.len() > 1 {
        let text = "one of these put it there; the tables do not tell which";
        children = vec![Tree::new(text, children)];
    }
    if !one.through.is_empty() {
        let names = one.through.iter().take(THROUGH_MAX).map(String::as_str);
        let more = (one.through.len() > THROUGH_MAX).then_some("…");
        let names: Vec<&str> = names.chain(more).collect();
        children.push(Tree::leaf(format!("through {}", names.join(" ← "))));
    }
    if !one.used_by.is_empty() {
        children.push(Tree::leaf(format!("premise of {}", clean(&one.used_by.join(", ")))));
    }
    Tree::new(format!("{rank}{score}  {}  [{}]", clean(says), short(&one.fact_id)), children)
}

fn origin(origin: &Origin) -> Tree {
    Tree::leaf(match origin {
        Origin::Lesson(lesson) => taught(lesson),
        Origin::Entry(entry) => {
            let says = columns(&entry.columns).unwrap_or_default();
            Styled::from(format!("entry of {}: ", entry.stage)) + says
        }
        Origin::Row(row) => source_row(row),
    })
}

fn taught(lesson: &TaughtFact) -> Styled {
    let TaughtFact { stage, place, question_id, question, .. } = lesson;
    let question = question.as_deref().unwrap_or_default();
    let verdict = if lesson.correct == Some(true) { "right" } else { "wrong" };
    let proof = lesson.proof_id.as_deref().map(|proof| format!(", by proof {proof}"));
    let answered = match &lesson.answer {
        Some(answer) => {
            format!("the {verdict} answer was `{answer}`{}", proof.unwrap_or_default())
        }
        None => "there was no answer".to_owned(),
    };
    let again: Vec<String> = lesson.again.iter().map(i64::to_string).collect();
    lines([
        Some(
            clean(&format!("taught by lesson {place} of {stage}: {question_id} {question}")).into(),
        ),
        Some(clean(&answered).into()),
        (!again.is_empty()).then(|| format!("said again by lesson {}", again.join(", ")).into()),
    ])
}

fn source_row(row: &SourceRow) -> Styled {
    let SourceRow { stage, stage_kind, column, rows, .. } = row;
    let first = if *rows > 1 { format!(", the first of {rows}") } else { String::new() };
    let others = columns(&row.columns).map(|others| Styled::from(": ") + others);
    let row = format!("a row of {stage} ({stage_kind}), column {}{first}", clean(column));
    Styled::from(row) + others.unwrap_or_default()
}
