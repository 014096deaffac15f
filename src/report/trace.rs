//! The path of an answer as a tree: what was recalled and who taught it, each hypothesis with its
//! proofs, what failed, what was decided.

mod facts;
pub mod item;
mod proofs;
mod words;

use crate::draw::cells::format_float;
use crate::draw::table::aligned;
use crate::draw::tree::Tree;
pub use crate::report::trace::words::Style;
use crate::report::trace::words::{clean, columns, commas, lines, named, number, short};
use crate::report::units::plural;
use crate::trace::document::{Answered, Audit, Decision, Failure, LessonRow, Question, Trace};
use proofmill_base::styled::Styled;
use proofmill_base::styled::printable;

/// What a run says to a question: its answers, then the paths that were requested.
pub fn text(audit: &Audit, style: Style) -> Styled {
    let mut drawn = head(&audit.question, &audit.run, &audit.pipeline).draw(style.width);
    if style.listed && audit.answers.len() > 1 {
        drawn = drawn + "\n" + answers(&audit.answers);
    }
    for trace in &audit.traces {
        drawn = drawn + "\n" + tree(trace, style).draw(style.width);
    }
    drawn
}

/// The question, and the run.
fn head(question: &Question, run: &str, pipeline: &str) -> Tree {
    let asks = question.text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    Tree::leaf(lines([
        Some(clean(&format!("question {}{asks}", question.id)).into()),
        Some(format!("run {run} of {}", clean(pipeline)).into()),
    ]))
}

/// The table of all stages that answer the question; `▶` marks those whose path follows.
fn answers(all: &[Answered]) -> String {
    let header = ["", "stage", "answer", "status", "score", "margin", "", "also called"];
    let float = |value: Option<f64>| value.map(format_float).unwrap_or_default();
    let line = |answered: &Answered| {
        let lost = Decision { status: Some("lost".to_owned()), ..Decision::default() };
        let decision = answered.decision.clone().unwrap_or(lost);
        let answer = named(decision.label.as_deref(), decision.answer.as_deref());
        let cell = |text: Option<String>| printable(&text.unwrap_or_default(), false);
        vec![
            if answered.traced { "▶" } else { "" }.to_owned(),
            answered.stage.clone(),
            cell(answer),
            cell(decision.status),
            float(decision.score),
            float(decision.margin),
            decision.correct.map_or("", right).to_owned(),
            cell(Some(answered.same_as.join(", "))),
        ]
    };
    let numbers = [false, false, false, false, true, true, false, false];
    aligned(&header.map(str::to_owned), all.iter().map(line).collect(), &numbers)
}

/// The path of one answer.
fn tree(trace: &Trace, style: Style) -> Tree {
    let mut children: Vec<Tree> = facts::recalled(trace).into_iter().collect();
    let hypotheses = trace.hypotheses.iter();
    children.extend(hypotheses.map(|one| proofs::hypothesis(one, trace.threshold, style)));
    if !trace.failures.is_empty() {
        let failures = trace.failures.iter().map(failure).collect();
        children.push(Tree::new(style.bad("failed"), failures));
    }
    if trace.proofs_hidden > 0 {
        let hidden = plural(trace.proofs_hidden, "proof");
        children.push(Tree::leaf(format!("{hidden} not shown; `--proofs all` shows all")));
    }
    children.push(match &trace.decision {
        Some(it) => decision(it, style),
        None => Tree::leaf(style.bad("lost") + ": the question has no answer"),
    });
    children.extend(trace.lesson.iter().map(lesson));
    let text = lines([
        Some(clean(&format!("{} ({})", trace.stage, trace.kind)).into()),
        columns(&trace.kept).map(|kept| Styled::from("kept: ") + kept),
    ]);
    Tree::new(text, children)
}

fn failure(one: &Failure) -> Tree {
    let Failure { stage, source, class, message, raw } = one;
    Tree::leaf(lines([
        Some(clean(&format!("{source} in {stage}, {class}: {message}")).into()),
        (!raw.is_empty()).then(|| clean(&format!("asked: {raw}")).into()),
    ]))
}

fn decision(one: &Decision, style: Style) -> Tree {
    let answer = named(one.label.as_deref(), one.answer.as_deref());
    let answer = answer.unwrap_or_else(|| "no answer".to_owned());
    let verdict = one.correct.map(|correct| match correct {
        true => style.good(right(true)),
        false => style.bad(right(false)),
    });
    let margin = number("margin", one.margin).map(|margin| match &one.runner_up {
        Some(next) => {
            let name = named(next.label.as_deref(), next.answer.as_deref());
            let name = name.unwrap_or_else(|| clean(&next.hypothesis_id));
            margin + format!(" over {name} ({})", format_float(next.score))
        }
        None => margin,
    });
    let status = one.status.as_deref().map(clean).map(Styled::from);
    let said = commas([Some(answer.into()), status, verdict]);
    Tree::leaf(lines([
        said.map(|said| Styled::from("decision: ") + said),
        commas([number("score", one.score), margin, number("belief", one.direct)]),
        one.proof_id.as_ref().map(|proof| format!("by proof {}", clean(proof)).into()),
        one.confirmed.as_ref().map(|it| format!("a user confirmed: {}", clean(it)).into()),
    ]))
}

fn right(correct: bool) -> &'static str {
    if correct { "right" } else { "wrong" }
}

fn lesson(one: &LessonRow) -> Tree {
    let LessonRow { place, round, memory, .. } = one;
    let memory = plural(memory.unsigned_abs() as usize, "fact");
    let id = one.fact_id.as_deref().map(|id| format!("  [{}]", short(id))).unwrap_or_default();
    let said = match &one.fact {
        Some(fact) => format!("the user said: {}{id}", clean(fact)),
        None => "the user said nothing".to_owned(),
    };
    Tree::leaf(lines([
        Some(format!("lesson {place} of round {round}, with {memory} in memory").into()),
        Some(said.into()),
    ]))
}
