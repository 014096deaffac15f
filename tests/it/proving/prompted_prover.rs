//! The prompted prover: what it is asked, what becomes of what it writes, and who verifies.

use serde_json::{Value as Json, json};

use crate::oracle;
use crate::server::serve;
use crate::support::Workspace;

const PIPELINE: &str = include_str!("../../../pipelines/prompted_prover.yaml");
const RIGHT: &str = "a magnet will not attract a penny";
const WRONG: &str = "a magnet can attract a penny";

/// A large model of our words: it reasons about pennies, and about nothing else.
fn reasons(_: usize, body: &Json) -> (&'static str, Json) {
    let prompt = body["messages"][0]["content"].as_str().unwrap_or_default();
    let (_, asked) = prompt.rsplit_once("Statement: ").unwrap_or_default();
    let text = match asked.split('\n').next().unwrap_or_default() {
        RIGHT => {
            "1. A penny is made of copper.\n2. A magnet cannot attract copper.\nSo it will not."
        }
        WRONG => {
            "Let us think.\n1) **A penny is made of magnetic metal.**\n\n2) A magnet can attract \
             magnetic metal.\n3) A magnet can attract a penny."
        }
        _ => "I would not know.",
    };
    let choice = json!({
        "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop",
    });
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 2 });
    ("200 OK", json!({ "choices": [choice], "usage": usage }))
}

fn workspace() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    // The verifier is an endpoint here, too: its beliefs are written down.
    workspace.edit(
        "p.yaml",
        "{ path: \"${params.model}\" }",
        "{ url: \"${params.model}\", model: entailer, capabilities: { scores: true } }",
    );
    let question = |id: &str, split: &str, question: &str, hypotheses: [&str; 2], fact: &str| {
        json!({
            "id": id, "split": split, "question": question, "choices": ["yes", "no"],
            "hypotheses": hypotheses, "answer": 1, "fact": fact,
        })
        .to_string()
    };
    let penny = "Can a magnet attract a penny?";
    let rows = [
        question("t", "train", "What is a penny?", ["a", "b"], "A penny is made of copper."),
        question("penny", "test", penny, [WRONG, RIGHT], "A magnet cannot attract copper."),
        question("snow", "test", "Is snow warm?", ["snow is warm", "snow is cold"], "Ice is cold."),
    ];
    workspace.write("questions.jsonl", rows.join("\n"));
    workspace
}

#[test]
fn numbered_steps_are_verified_like_any_proof() {
    let ((prover, prompts), (verifier, beliefs)) = (serve(reasons), oracle::start());
    let workspace = workspace();
    let (endpoint, model) = (format!("endpoint={prover}"), format!("model={verifier}"));
    let mut run = vec!["run", "p.yaml"];
    for param in [&endpoint, &model, "questions=questions.jsonl", "include_eos=false"] {
        run.extend(["--param", param]);
    }
    workspace.proofmill(&run).expect(0);

    let proofs = workspace.sql(
        "SELECT proof_id, array_length(premises) AS premises, premises[1]['text'] AS first,
           premises[1]['origin'] AS origin, accepted, reject_reason, round(score, 6) AS score
         FROM verified ORDER BY proof_id",
    );
    let proof = |id: &str, rest: Json| {
        let mut proof = json!({"proof_id": format!("{id}/prompted0")});
        proof.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        proof
    };
    // The third line of the wrong answer only repeats it. What was recalled is from the memory.
    let expected = [
        proof(
            "penny#0",
            json!({"premises": 2, "first": "A penny is made of magnetic metal.", "origin": "model",
                "accepted": true, "reject_reason": null, "score": 0.84645}),
        ),
        proof(
            "penny#1",
            json!({"premises": 2, "first": "A penny is made of copper.", "origin": "memory",
                "accepted": true, "reject_reason": null, "score": 0.998798}),
        ),
    ];
    assert_eq!(proofs[..2], expected);
    for snow in &proofs[2..] {
        assert_eq!(snow["reject_reason"], "no_premises", "{snow}");
    }

    let answers = workspace
        .sql("SELECT system, question_id, answer, status, correct FROM results ORDER BY question_id, system");
    let said: Vec<_> =
        answers.iter().map(|it| [&it["system"], &it["answer"], &it["status"]]).collect();
    assert_eq!(said[0], ["direct", "yes", "direct"]);
    assert_eq!(said[1], ["prompted", "no", "proved"]);
    assert_eq!(said[3][2], "fallback_direct");
    let reasons = workspace.sql("SELECT reason, proofs FROM reject_reasons");
    let reason = |name: &str| json!({"reason": name, "proofs": 2});
    assert_eq!(reasons, [reason("accepted"), reason("no_premises")]);

    let asked = (prompts.lock().unwrap().len(), beliefs.lock().unwrap().len());
    assert_eq!(asked.0, 4, "each hypothesis once");
    workspace.proofmill(&run).expect(0).says("0 stages computed");
    assert_eq!((prompts.lock().unwrap().len(), beliefs.lock().unwrap().len()), asked);
}

#[test]
fn examples_and_facts_are_shown_as_asked_for() {
    let ((prover, prompts), (verifier, _)) = (serve(reasons), oracle::start());
    let workspace = workspace();
    let (endpoint, model) = (format!("endpoint={prover}"), format!("model={verifier}"));
    for (shots, facts) in [("0", "false"), ("2", "true")] {
        prompts.lock().unwrap().clear();
        let (shots_given, facts_given) = (format!("shots={shots}"), format!("with_facts={facts}"));
        let mut run = vec!["run", "p.yaml"];
        for param in [
            &*endpoint,
            &model,
            &shots_given,
            &facts_given,
            "questions=questions.jsonl",
            "include_eos=false",
            "limit=1",
            "temperature=0.7",
        ] {
            run.extend(["--param", param]);
        }
        workspace.proofmill(&run).expect(0);
        let sent = prompts.lock().unwrap().clone();
        assert_eq!(sent.len(), 2);
        for (head, body) in &sent {
            assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
            assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.7), &json!(256)));
            let prompt = body["messages"][0]["content"].as_str().unwrap();
            let examples = prompt.matches("Statement: ").count() - 1;
            assert_eq!(examples.to_string(), shots, "{prompt}");
            assert_eq!(prompt.matches("\n1. ").count(), examples, "{prompt}");
            let listed = "Facts that may help:\n- A penny is made of copper.\n\n";
            assert_eq!(prompt.contains(listed), facts == "true", "{prompt}");
            assert!(prompt.ends_with("\nFacts:"), "{prompt}");
        }
    }
}
