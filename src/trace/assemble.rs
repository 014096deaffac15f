//! Rows of a question, from all tables that have some, put together to the path of its answer.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value as Json};

use crate::trace::document::{
    Decision, Failure, Hypothesis, LessonRow, Premise, Proof, Recalled, RunnerUp, Trace,
};
use crate::trace::row::JsonRow;
use crate::trace::source::Sources;
use proofmill_base::sentence::fact_id;
use proofmill_base::sentence::normalized;

/// Which proofs a trace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownProofs {
    All,
    Accepted,
    /// The one that the answer rests on.
    Best,
}

/// The rows of a question.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub answer: Option<JsonRow>,
    /// Columns of the answer that are the stage's own.
    pub own: Vec<&'static str>,
    /// Whether proofs decide, or beliefs alone.
    pub proves: bool,
    /// Its hypotheses as they were written.
    pub hypotheses: Vec<JsonRow>,
    /// Its hypotheses with the beliefs in them.
    pub beliefs: Vec<JsonRow>,
    /// Its proofs as they were written.
    pub written: Vec<JsonRow>,
    /// Its proofs as they were judged.
    pub judged: Vec<JsonRow>,
    pub recalled: Vec<JsonRow>,
    pub failures: Vec<Failure>,
    /// Where facts come from.
    pub sources: Sources,
    /// What a belief must reach.
    pub threshold: Option<f64>,
}

/// The path of the answer, but for the names of its tables.
pub fn assemble(found: &Found, shown: ShownProofs) -> Trace {
    let answer = found.answer.as_ref();
    let decides = answer.and_then(|answer| answer.text("proof_id"));
    let proofs = proofs(found, decides.as_deref());
    let recalled = recalled(found, &proofs);
    let kept = answer.map(|answer| answer.others(&found.own)).unwrap_or_default();
    let mut hypotheses = hypotheses(found, &kept, proofs);
    let decision = answer.map(|answer| decision(answer, &hypotheses));
    let proofs_hidden = hypotheses.iter_mut().map(|one| hide(&mut one.proofs, shown, true)).sum();
    Trace {
        kept,
        threshold: found.threshold,
        recalled,
        hypotheses,
        proofs_hidden,
        failures: found.failures.clone(),
        decision,
        lesson: answer.filter(|_| found.own.contains(&"taught")).and_then(lesson),
        ..Trace::default()
    }
}

/// Takes away the proofs that are not shown: how many.
fn hide(proofs: &mut Vec<Proof>, shown: ShownProofs, is_top: bool) -> usize {
    let before = count(proofs);
    proofs.retain(|proof| match (shown, is_top) {
        (ShownProofs::All, _) => true,
        (ShownProofs::Accepted, _) => proof.accepted == Some(true),
        (ShownProofs::Best, true) => proof.decides,
        (ShownProofs::Best, false) => proof.kept == Some(true),
    });
    for premise in proofs.iter_mut().flat_map(|proof| &mut proof.premises) {
        hide(&mut premise.proofs, shown, false);
    }
    before - count(proofs)
}

/// Proofs with those of their premises.
fn count(proofs: &[Proof]) -> usize {
    let below = proofs.iter().flat_map(|proof| &proof.premises);
    proofs.len() + below.map(|premise| count(&premise.proofs)).sum::<usize>()
}

/// Hangs the proofs of premises, whose hypothesis is `proof/p1` and so on, below the premises.
fn hang(proofs: &mut [Proof], all: &mut BTreeMap<String, Vec<Proof>>) {
    for proof in proofs {
        for (place, premise) in (1..).zip(&mut proof.premises) {
            let below = all.remove(&format!("{}/p{place}", proof.proof_id));
            premise.proofs = below.unwrap_or_default();
            hang(&mut premise.proofs, all);
        }
    }
}

/// The proofs by what they prove, each list in the order in which they were tried.
fn proofs(found: &Found, decides: Option<&str>) -> BTreeMap<String, Vec<Proof>> {
    let mut rows: BTreeMap<String, [Option<&JsonRow>; 2]> = BTreeMap::new();
    for (place, some) in [&found.written, &found.judged].into_iter().enumerate() {
        for row in some {
            if let Some(id) = row.text("proof_id") {
                rows.entry(id).or_default()[place] = Some(row);
            }
        }
    }
    let mut all: BTreeMap<String, Vec<Proof>> = BTreeMap::new();
    for (id, [written, judged]) in rows {
        let of = written.or(judged).and_then(|row| row.text("hypothesis_id")).unwrap_or_default();
        let decides = decides == Some(id.as_str());
        all.entry(of).or_default().push(proof(id, decides, written, judged));
    }
    for some in all.values_mut() {
        some.sort_by_cached_key(|proof| attempt(&proof.proof_id));
    }
    all
}

/// Free proofs first, then those that were forced, each by their number.
fn attempt(proof_id: &str) -> (bool, u64, String) {
    let name = proof_id.rsplit('/').next().unwrap_or_default();
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    (!name.starts_with("free"), digits.parse().unwrap_or(0), proof_id.to_owned())
}

fn proof(id: String, decides: bool, written: Option<&JsonRow>, judged: Option<&JsonRow>) -> Proof {
    let either = |column: &str| {
        let of = |row: Option<&JsonRow>| row.and_then(|row| row.text(column));
        of(written).or_else(|| of(judged))
    };
    let mut premises: Vec<Premise> =
        judged.map(|row| row.rows("premises")).unwrap_or_default().iter().map(premise).collect();
    if premises.is_empty() {
        let texts = written.map(|row| row.texts("premises")).unwrap_or_default();
        premises = texts.into_iter().map(|text| Premise { text, ..Premise::default() }).collect();
    }
    Proof {
        strategy: either("strategy"),
        forced_fact_id: either("forced_fact_id"),
        forced_fact: either("forced_fact"),
        prompt: either("prompt"),
        text: either("text"),
        finish_reason: either("finish_reason"),
        output_tokens: written.and_then(|row| row.whole("output_tokens")),
        premises,
        entailment: judged.and_then(|row| row.number("entailment")),
        score: judged.and_then(|row| row.number("score")),
        accepted: judged.and_then(|row| row.flag("accepted")),
        reject_reason: judged.and_then(|row| row.text("reject_reason")),
        decides,
        searched_score: judged.and_then(|row| row.number("searched_score")),
        kept: judged.and_then(|row| row.flag("kept")),
        drop_reason: judged.and_then(|row| row.text("drop_reason")),
        written_digest: written.and_then(|row| row.text("request_digest")),
        judged_digests: judged.map(|row| row.texts("request_digests")).unwrap_or_default(),
        proof_id: id,
    }
}

fn premise(row: &JsonRow) -> Premise {
    Premise {
        text: row.text("text").unwrap_or_default(),
        origin: row.text("origin"),
        fact_id: row.text("fact_id"),
        belief: row.number("belief"),
        believed: row.flag("believed"),
        contradicted_by: row.text("contradicted_by"),
        proofs: Vec::new(),
    }
}

fn recalled(found: &Found, proofs: &BTreeMap<String, Vec<Proof>>) -> Vec<Recalled> {
    let accepted = || proofs.values().flatten().filter(|proof| proof.accepted == Some(true));
    let of = |row: &JsonRow| {
        let id = row.text("fact_id").unwrap_or_default();
        let fact = row.text("fact");
        // Facts that a query made may have any id; where they come from goes by the sentence.
        let key = fact.as_deref().map(fact_id);
        let known = key.and_then(|key| found.sources.get(&key)).or_else(|| found.sources.get(&id));
        let uses = |proof: &&Proof| {
            proof.premises.iter().any(|premise| premise.fact_id.as_deref() == Some(id.as_str()))
        };
        Recalled {
            rank: row.whole("rank"),
            score: row.number("score"),
            used_by: accepted().filter(uses).map(|proof| proof.proof_id.clone()).collect(),
            through: known.map(|known| known.through.clone()).unwrap_or_default(),
            origins: known.map(|known| known.origins()).unwrap_or_default(),
            fact: known.and_then(|known| known.fact.clone()).filter(|_| fact.is_none()).or(fact),
            fact_id: id,
        }
    };
    let mut all: Vec<Recalled> = found.recalled.iter().map(of).collect();
    all.sort_by_key(|fact| fact.rank.unwrap_or(i64::MAX));
    all
}

fn hypotheses(
    found: &Found,
    kept: &Map<String, Json>,
    mut proofs: BTreeMap<String, Vec<Proof>>,
) -> Vec<Hypothesis> {
    let mut all: BTreeMap<String, Hypothesis> = BTreeMap::new();
    let rows = found.hypotheses.iter().map(|row| (row, true));
    for (row, is_source) in rows.chain(found.beliefs.iter().map(|row| (row, false))) {
        let Some(id) = row.text("hypothesis_id") else { continue };
        let one = all
            .entry(id.clone())
            .or_insert_with(|| Hypothesis { hypothesis_id: id, ..Hypothesis::default() });
        one.choice = one.choice.or_else(|| row.whole("choice"));
        one.label = one.label.take().or_else(|| row.text("label"));
        one.answer = one.answer.take().or_else(|| row.text("answer"));
        one.hypothesis = one.hypothesis.take().or_else(|| row.text("hypothesis"));
        if is_source {
            one.written_digest = row.text("request_digest");
        } else {
            one.direct = row.number("direct");
            one.direct_digest = row.text("request_digest");
        }
    }
    let written: HashSet<&str> =
        proofs.values().flatten().map(|proof| proof.proof_id.as_str()).collect();
    // What a proof of a premise proves is called by the proof that has the premise.
    let is_premise =
        |id: &str| id.rsplit_once("/p").is_some_and(|(proof, _)| written.contains(proof));
    for id in proofs.keys().filter(|id| !is_premise(id)) {
        all.entry(id.clone())
            .or_insert_with(|| Hypothesis { hypothesis_id: id.clone(), ..Hypothesis::default() });
    }
    let mut all: Vec<Hypothesis> = all.into_values().collect();
    all.sort_by_key(|one| (one.choice.unwrap_or(i64::MAX), one.hypothesis_id.clone()));
    mark_gold(&mut all, kept);
    for one in &mut all {
        one.proofs = proofs.remove(&one.hypothesis_id).unwrap_or_default();
        hang(&mut one.proofs, &mut proofs);
        one.score = score(one, found.proves);
    }
    all
}

/// What a hypothesis scores, by the rules of `select_answer`.
fn score(one: &Hypothesis, proves: bool) -> f64 {
    let direct = one.direct.unwrap_or(0.0);
    let is_searched = one.proofs.iter().any(|proof| proof.kept.is_some());
    let counts = |proof: &&Proof| match is_searched {
        true => proof.kept == Some(true),
        false => proof.accepted == Some(true),
    };
    let worth = |proof: &Proof| if is_searched { proof.searched_score } else { proof.score };
    let best = one.proofs.iter().filter(counts).filter_map(worth).max_by(f64::total_cmp);
    match (proves, is_searched) {
        (false, _) => direct,
        (true, true) => best.unwrap_or(direct),
        (true, false) => best.unwrap_or(0.0),
    }
}

/// Marks the hypothesis that the kept column `gold` names: by its id, else its label, else its answer.
fn mark_gold(all: &mut [Hypothesis], kept: &Map<String, Json>) {
    let gold = match kept.get("gold") {
        Some(Json::String(gold)) => gold.clone(),
        Some(Json::Number(gold)) => gold.to_string(),
        _ => return,
    };
    let ways: [&dyn Fn(&Hypothesis) -> bool; 3] =
        [&|one| one.hypothesis_id == gold, &|one| one.label.as_ref() == Some(&gold), &|one| {
            one.answer.as_ref().is_some_and(|answer| normalized(answer) == normalized(&gold))
        }];
    if let Some(names) = ways.into_iter().find(|names| all.iter().any(names)) {
        let marks: Vec<bool> = all.iter().map(names).collect();
        all.iter_mut().zip(marks).for_each(|(one, is_gold)| one.gold = Some(is_gold));
    }
}

fn decision(answer: &JsonRow, hypotheses: &[Hypothesis]) -> Decision {
    let id = answer.text("hypothesis_id");
    let chosen = hypotheses.iter().find(|one| Some(&one.hypothesis_id) == id.as_ref());
    let is_gold = match &id {
        Some(_) => chosen.and_then(|one| one.gold),
        None => hypotheses.iter().any(|one| one.gold.is_some()).then_some(false),
    };
    let margin = answer.number("margin");
    Decision {
        runner_up: if id.is_some() && margin.is_some() { next(hypotheses, chosen) } else { None },
        label: answer.text("label"),
        answer: answer.text("answer"),
        status: answer.text("status"),
        score: answer.number("score"),
        direct: answer.number("direct"),
        margin,
        proof_id: answer.text("proof_id"),
        proved: answer.whole("proved"),
        confirmed: answer.text("confirmed"),
        correct: answer.flag("correct").or(is_gold),
        hypothesis_id: id,
    }
}

/// The hypothesis behind the chosen one, in the order in which `select_answer` prefers them.
fn next(hypotheses: &[Hypothesis], chosen: Option<&Hypothesis>) -> Option<RunnerUp> {
    let preferred = |a: &&Hypothesis, b: &&Hypothesis| -> Ordering {
        let direct = |one: &Hypothesis| one.direct.unwrap_or(f64::NEG_INFINITY);
        b.score
            .total_cmp(&a.score)
            .then(direct(b).total_cmp(&direct(a)))
            .then(a.choice.cmp(&b.choice))
    };
    let others = hypotheses.iter().filter(|one| {
        // Who has no belief in it took no part.
        one.direct.is_some() && chosen.is_none_or(|it| it.hypothesis_id != one.hypothesis_id)
    });
    others.min_by(preferred).map(|one| RunnerUp {
        hypothesis_id: one.hypothesis_id.clone(),
        label: one.label.clone(),
        answer: one.answer.clone(),
        score: one.score,
    })
}

/// What the user made of the answer.
fn lesson(answer: &JsonRow) -> Option<LessonRow> {
    Some(LessonRow {
        place: answer.whole("place")?,
        round: answer.whole("round")?,
        memory: answer.whole("memory")?,
        taught: answer.flag("taught")?,
        fact: answer.text("fact"),
        fact_id: answer.text("fact_id"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(all: Json) -> Vec<JsonRow> {
        JsonRow(Map::from_iter([("all".to_owned(), all)])).rows("all")
    }

    /// Two hypotheses with a proof each, and two proofs more that were never judged or came second.
    fn found() -> Found {
        Found {
            answer: rows(json!([{
                "question_id": "q", "hypothesis_id": "q#1", "answer": "no", "score": 0.8,
                "margin": 0.5, "proof_id": "q#1/free", "gold": "NO ", "split": "test", "note": null
            }]))
            .pop(),
            own: crate::stages::kinds::select_answer::COLUMNS.to_vec(),
            proves: true,
            hypotheses: rows(json!([
                {"hypothesis_id": "q#1", "choice": 1, "answer": "no", "hypothesis": "it does not"},
                {"hypothesis_id": "q#0", "choice": 0, "answer": "yes", "hypothesis": "it does"},
                {"hypothesis_id": "q#2", "choice": 2, "answer": "maybe", "hypothesis": "it may"},
            ])),
            beliefs: rows(json!([
                {"hypothesis_id": "q#0", "direct": 0.9, "request_digest": "d0"},
                {"hypothesis_id": "q#1", "direct": 0.1, "request_digest": "d1"},
            ])),
            written: rows(json!([
                {"proof_id": "q#0/fact10", "hypothesis_id": "q#0", "premises": ["p"], "text": "t10"},
                {"proof_id": "q#0/fact2", "hypothesis_id": "q#0", "text": "t2"},
                {"proof_id": "q#0/free", "hypothesis_id": "q#0", "text": "t"},
                {"proof_id": "q#1/free", "hypothesis_id": "q#1", "text": "u"},
            ])),
            judged: rows(json!([
                {"proof_id": "q#0/fact2", "hypothesis_id": "q#0", "accepted": true, "score": 0.3,
                 "premises": [{"text": "f", "fact_id": "id", "belief": 1.0, "believed": true}]},
                {"proof_id": "q#0/free", "hypothesis_id": "q#0", "accepted": false, "score": 0.9,
                 "reject_reason": "blocked"},
                {"proof_id": "q#1/free", "hypothesis_id": "q#1", "accepted": true, "score": 0.8},
            ])),
            recalled: rows(json!([
                {"rank": 2, "fact_id": "other", "fact": "g"},
                {"rank": 1, "fact_id": "id", "fact": "f"},
            ])),
            ..Found::default()
        }
    }

    #[test]
    fn rows_come_together_by_their_ids() {
        let trace = assemble(&found(), ShownProofs::All);
        let ids: Vec<&str> = trace.hypotheses.iter().map(|it| &*it.hypothesis_id).collect();
        assert_eq!(ids, ["q#0", "q#1", "q#2"], "in the order of the choices");
        let first = &trace.hypotheses[0];
        assert_eq!((first.direct, first.direct_digest.as_deref()), (Some(0.9), Some("d0")));
        assert_eq!(first.score, 0.3, "rejected proofs do not count");
        let tried: Vec<&str> = first.proofs.iter().map(|proof| &*proof.proof_id).collect();
        assert_eq!(tried, ["q#0/free", "q#0/fact2", "q#0/fact10"], "numbers, not letters");
        let open = &first.proofs[2];
        assert_eq!((open.accepted, open.premises[0].text.as_str()), (None, "p"));
        assert_eq!(trace.kept, *json!({"gold": "NO ", "split": "test"}).as_object().unwrap());
        assert_eq!(trace.recalled[0].used_by, ["q#0/fact2"]);
        assert!(trace.recalled[1].used_by.is_empty());
        assert!(trace.lesson.is_none());
    }

    #[test]
    fn the_runner_up_is_next_in_the_order_of_decide() {
        let trace = assemble(&found(), ShownProofs::All);
        let decision = trace.decision.unwrap();
        assert_eq!(decision.correct, Some(true), "gold is the answer in other clothes");
        assert_eq!(decision.runner_up.unwrap().hypothesis_id, "q#0");
        // The third is neither believed nor doubted, so it took no part.
        let mut without = found();
        without.judged.retain(|row| row.text("proof_id").as_deref() == Some("q#1/free"));
        let next = assemble(&without, ShownProofs::All).decision.unwrap().runner_up.unwrap();
        assert_eq!((&*next.hypothesis_id, next.score), ("q#0", 0.0));
        // Of those that did, the score decides, then the belief.
        for (belief, second) in [(0.95, "q#2"), (0.5, "q#0")] {
            let third = json!([{"hypothesis_id": "q#2", "direct": belief}]);
            let mut all = found();
            all.beliefs.extend(rows(third.clone()));
            let next = assemble(&all, ShownProofs::All).decision.unwrap().runner_up.unwrap();
            assert_eq!(next.hypothesis_id, "q#0", "it has a proof");
            let mut without = without.clone();
            without.beliefs.extend(rows(third));
            let next = assemble(&without, ShownProofs::All).decision.unwrap().runner_up.unwrap();
            assert_eq!(next.hypothesis_id, second);
        }
    }

    #[test]
    fn gold_is_an_id_before_it_is_a_label_or_an_answer() {
        let marks = |gold: &str, label: &str| {
            let mut found = found();
            for (row, label) in found.hypotheses.iter_mut().zip([label, "A", "B"]) {
                row.0.insert("label".to_owned(), json!(label));
            }
            if let Some(answer) = &mut found.answer {
                answer.0.insert("gold".to_owned(), json!(gold));
            }
            let trace = assemble(&found, ShownProofs::All);
            let marks: Vec<_> = trace.hypotheses.iter().map(|one| one.gold).collect();
            (marks, trace.decision.unwrap().correct)
        };
        let only = |n: usize| (0..3).map(|i| Some(i == n)).collect::<Vec<_>>();
        assert_eq!(marks("q#0", "C"), (only(0), Some(false)));
        assert_eq!(marks("A", "C"), (only(0), Some(false)));
        assert_eq!(marks("maybe", "maybe"), (only(1), Some(true)), "a label, not an answer");
        assert_eq!(marks("perhaps", "C"), (vec![None; 3], None));
    }

    #[test]
    fn what_is_hidden_is_counted() {
        let shown = |shown| {
            let trace = assemble(&found(), shown);
            let proofs = trace.hypotheses.iter().map(|one| one.proofs.len()).sum::<usize>();
            (proofs, trace.proofs_hidden)
        };
        assert_eq!(shown(ShownProofs::All), (4, 0));
        assert_eq!(shown(ShownProofs::Accepted), (2, 2));
        assert_eq!(shown(ShownProofs::Best), (1, 3));
    }

    #[test]
    fn premises_have_proofs_of_their_own() {
        let found = Found {
            proves: true,
            judged: rows(json!([
                {"proof_id": "a/p#0/free", "hypothesis_id": "a/p#0", "accepted": true, "score": 0.2,
                 "searched_score": 0.6, "kept": true, "premises": [{"text": "x"}, {"text": "y"}]},
                {"proof_id": "a/p#0/free/p2/free", "hypothesis_id": "a/p#0/free/p2",
                 "accepted": true, "score": 0.9, "kept": false, "drop_reason": "not_best"},
            ])),
            ..Found::default()
        };
        let trace = assemble(&found, ShownProofs::All);
        assert_eq!(trace.hypotheses.len(), 1, "a premise is no hypothesis of the question");
        let one = &trace.hypotheses[0];
        assert_eq!(one.score, 0.6, "what the search made of it");
        let premises = &one.proofs[0].premises;
        assert_eq!((premises[0].proofs.len(), premises[1].proofs.len()), (0, 1));
        assert_eq!(premises[1].proofs[0].drop_reason.as_deref(), Some("not_best"));
        assert_eq!(assemble(&found, ShownProofs::Best).proofs_hidden, 2);
    }
}
