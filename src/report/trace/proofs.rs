//! A hypothesis with its proofs: what the model read and wrote, what it believes, and the verdict.

use crate::draw::cells::format_float;
use crate::draw::tree::Tree;
use crate::report::trace::words::{Style, clean, commas, lines, named, number, short};
use crate::report::units::plural;
use crate::trace::document::{Hypothesis, Premise, Proof};
use proofmill_base::styled::Styled;

/// A hypothesis with its proofs.
pub fn hypothesis(one: &Hypothesis, threshold: Option<f64>, style: Style) -> Tree {
    let name = named(one.label.as_deref(), one.answer.as_deref());
    let name = name.unwrap_or_else(|| "hypothesis".to_owned());
    let says = one.hypothesis.as_deref().unwrap_or_default();
    let gold = (one.gold == Some(true)).then(|| style.good("gold"));
    let written = one.written_digest.as_deref().map(|it| request("wrote it", it));
    let direct = one.direct_digest.as_deref().map(|it| request("asked about it", it));
    let text = lines([
        Some(format!("{name}: {}", clean(&format!("{says}  [{}]", one.hypothesis_id))).into()),
        commas([gold, number("belief", one.direct), number("score", Some(one.score))]),
        commas([written, direct]).map(|requests| Styled::from("requests: ") + requests),
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
            style.bad("rejected") + format!(", {}{why}", clean(reason))
        }
        None => style.doubtful("open") + ": no judgement of it took part",
    };
    let decides = if one.decides { "; the answer rests on it" } else { "" };
    let text = lines([
        Some(Styled::from(format!("proof {}: ", clean(&one.proof_id))) + verdict + decides),
        commas([
            number("score", one.score),
            number("entailment", one.entailment),
            number("searched score", one.searched_score),
        ]),
        one.drop_reason.as_deref().map(|it| format!("not in the tree: {}", clean(it)).into()),
    ]);
    let tokens = one.output_tokens.map(|n| plural(n.unsigned_abs() as usize, "token"));
    let end = commas([one.finish_reason.as_ref().map(Styled::from), tokens.map(Styled::from)]);
    let end = end.map(|end| format!("  ({})", end.as_str())).unwrap_or_default();
    let written = one.written_digest.as_deref().map(|it| request("wrote it", it));
    let judged: Vec<String> = one.judged_digests.iter().map(|digest| short(digest)).collect();
    let judged = (!judged.is_empty()).then(|| format!("judged it {}", judged.join(" ")).into());
    let prompted = one.prompt.as_deref().filter(|_| with_prompt).map(prompt);
    let wrote = one.text.as_ref().map(|text| clean(&format!("wrote: {text}{end}")));
    let requests = commas([written, judged]).map(|all| Styled::from("requests: ") + all);
    let mut children: Vec<Tree> = prompted.into_iter().chain(wrote.map(Tree::leaf)).collect();
    children.extend(one.premises.iter().map(|it| premise(it, threshold, style)));
    children.extend(requests.map(Tree::leaf));
    Tree::new(text, children)
}

fn request(what: &str, digest: &str) -> Styled {
    format!("{what} {}", short(digest)).into()
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
    let belief = if one.believed == Some(false) { style.bad(&belief) } else { belief.into() };
    let from = match (one.origin.as_deref(), one.fact_id.as_deref()) {
        (Some(origin), Some(fact)) => format!("  ({origin} {})", short(fact)),
        (Some(origin), None) => format!("  ({origin})"),
        (None, _) => String::new(),
    };
    let says = clean(&format!("  {}{from}", one.text));
    let contradicts =
        one.contradicted_by.as_deref().map(|fact| clean(&format!("contradicts: {fact}")));
    let text =
        lines([Some(Styled::from("premise ") + belief + says), contradicts.map(Styled::from)]);
    let proofs = one.proofs.iter().map(|it| proof(it, true, threshold, style));
    Tree::new(text, proofs.collect())
}
