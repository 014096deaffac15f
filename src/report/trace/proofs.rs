//! A hypothesis with its proofs: what the model read and wrote, what it believes, and the verdict.

use crate::audit::trace::{Hypothesis, Premise, Proof};
use crate::draw::cells::format_float;
use crate::draw::tree::Tree;
use crate::report::trace::words::{Style, clean, commas, lines, named, number, short};
use crate::report::units::plural;

/// A hypothesis with its proofs.
pub fn hypothesis(one: &Hypothesis, threshold: Option<f64>, style: Style) -> Tree {
    let name = named(one.label.as_deref(), one.answer.as_deref());
    let name = name.unwrap_or_else(|| "hypothesis".to_owned());
    let says = one.hypothesis.as_deref().unwrap_or_default();
    let gold = (one.gold == Some(true)).then(|| style.good("gold"));
    let written = one.written_digest.as_deref().map(|it| format!("wrote it {}", short(it)));
    let asked = one.direct_digest.as_deref().map(|it| format!("asked about it {}", short(it)));
    let text = lines([
        Some(format!("{name}: {}", clean(&format!("{says}  [{}]", one.hypothesis_id)))),
        commas([gold, number("belief", one.direct), number("score", Some(one.score))]),
        commas([written, asked]).map(|requests| format!("requests: {requests}")),
    ]);
    let shared = shared_prompt(&one.proofs);
    let mut children: Vec<Tree> = shared.into_iter().map(prompt).collect();
    let proofs = one.proofs.iter();
    children.extend(proofs.map(|it| proof(it, shared.is_none(), threshold, style)));
    Tree::new(text, children)
}

/// The prompt, if it is the same for all proofs, as it is for those of one stage.
fn shared_prompt(proofs: &[Proof]) -> Option<&str> {
    let first = proofs.first()?.prompt.as_deref()?;
    proofs.iter().all(|proof| proof.prompt.as_deref() == Some(first)).then_some(first)
}

fn prompt(text: &str) -> Tree {
    Tree::leaf(format!("prompt: {}", clean(text)))
}

fn proof(one: &Proof, with_prompt: bool, threshold: Option<f64>, style: Style) -> Tree {
    let reason = one.reject_reason.as_deref().unwrap_or_default();
    let verdict = match one.accepted {
        Some(true) => style.good("accepted"),
        Some(false) => {
            let why = why(one, reason, threshold);
            format!("{}, {}{why}", style.bad("rejected"), clean(reason))
        }
        None => format!("{}: no judgement of it took part", style.doubtful("open")),
    };
    let decides = if one.decides { "; the answer rests on it" } else { "" };
    let text = lines([
        Some(format!("proof {}: {verdict}{decides}", clean(&one.proof_id))),
        commas([
            number("score", one.score),
            number("entailment", one.entailment),
            number("searched score", one.searched_score),
        ]),
        one.drop_reason.as_deref().map(|reason| format!("not in the tree: {}", clean(reason))),
    ]);
    let tokens = one.output_tokens.map(|n| plural(n.unsigned_abs() as usize, "token"));
    let end = commas([one.finish_reason.clone(), tokens]);
    let end = end.map(|end| format!("  ({end})")).unwrap_or_default();
    let written = one.written_digest.as_deref().map(|it| format!("wrote it {}", short(it)));
    let judged: Vec<String> = one.judged_digests.iter().map(|digest| short(digest)).collect();
    let judged = (!judged.is_empty()).then(|| format!("judged it {}", judged.join(" ")));
    let asked = one.prompt.as_deref().filter(|_| with_prompt).map(prompt);
    let wrote = one.text.as_ref().map(|text| clean(&format!("wrote: {text}{end}")));
    let requests = commas([written, judged]).map(|requests| format!("requests: {requests}"));
    let mut children: Vec<Tree> = asked.into_iter().chain(wrote.map(Tree::leaf)).collect();
    children.extend(one.premises.iter().map(|it| premise(it, threshold, style)));
    children.extend(requests.map(Tree::leaf));
    Tree::new(text, children)
}

/// What a reason comes from, in numbers.
fn why(one: &Proof, reason: &str, threshold: Option<f64>) -> String {
    let Some(threshold) = threshold.map(format_float) else { return String::new() };
    match (reason, one.entailment) {
        ("not_entailed", Some(entailment)) => {
            format!(" ({} is below {threshold})", format_float(entailment))
        }
        ("premise_not_believed", _) => format!(" (one is below {threshold})"),
        _ => String::new(),
    }
}

fn premise(one: &Premise, threshold: Option<f64>, style: Style) -> Tree {
    let belief = one.belief.map_or("-".to_owned(), format_float);
    let belief = if one.believed == Some(false) { style.bad(&belief) } else { belief };
    let from = match (one.origin.as_deref(), one.fact_id.as_deref()) {
        (Some(origin), Some(fact)) => format!("  ({origin} {})", short(fact)),
        (Some(origin), None) => format!("  ({origin})"),
        (None, _) => String::new(),
    };
    let text = format!("premise {belief}  {}", clean(&format!("{}{from}", one.text)));
    let proofs = one.proofs.iter().map(|it| proof(it, true, threshold, style));
    Tree::new(text, proofs.collect())
}
