//! An entailer of our words: an endpoint whose beliefs and proofs about magnets, pennies and nails are
//! written down here, among them the published numbers of Entailer's example.

use serde_json::{Value as Json, json};

use crate::server::{Received, serve};

/// What it believes of sentences.
pub const BELIEFS: [(&str, f64); 14] = [
    ("a magnet will not attract a penny", 0.02883),
    ("a magnet can attract a penny", 0.95),
    ("A penny is made of magnetic metal.", 0.9),
    ("A magnet can attract magnetic metal.", 0.99),
    ("A penny is made of copper.", 0.999_047_1),
    ("A magnet cannot attract copper.", 0.999_767_6),
    ("A magnet can attract copper.", 0.98),
    ("Nothing attracts copper.", 0.3),
    ("a nail rusts in the rain", 0.4),
    ("a nail dissolves in the rain", 0.3),
    ("A nail is made of iron.", 0.7),
    ("Iron rusts in rain.", 0.55),
    ("Iron rusts in water.", 0.99),
    ("Rain is water.", 0.98),
];
/// Whether a proof entails a hypothesis: words of the hypothesis, words of the proof, belief.
const ENTAILED: [(&str, &str, f64); 6] = [
    ("will not", "cannot attract copper", 0.999_983_2),
    ("will not", "", 0.2),
    ("can attract", "cannot", 0.1),
    ("can attract", "", 0.95),
    ("a nail rusts", "rusts in rain", 0.99),
    ("rusts in rain", "rusts in water", 0.98),
];
/// Proofs of nails: a hypothesis, and what is written behind its prompt.
const PROOFS: [(&str, &str); 5] = [
    (
        "a nail rusts in the rain",
        "$proof$ = [PREMISE] A nail is made of iron. [PREMISE] Iron rusts in rain.",
    ),
    ("Iron rusts in rain.", "$proof$ = [PREMISE] Iron rusts in water. [PREMISE] Rain is water."),
    ("A nail is made of iron.", "$proof$ = [PREMISE] Nothing attracts copper."),
    ("Iron rusts in water.", "$proof$ = [PREMISE] Iron  rusts in rain [PREMISE] Rain is water."),
    ("Rain is water.", "$proof$ = "),
];

/// Starts it: its address, and what it is asked.
pub fn start() -> (String, Received) {
    serve(|_, body| ("200 OK", reply(body["prompt"].as_str().unwrap_or_default())))
}

/// The belief in a sentence; half if it never heard of it.
pub fn belief(sentence: &str) -> f64 {
    BELIEFS.iter().find(|(known, _)| *known == sentence).map_or(0.5, |(_, belief)| *belief)
}

/// The belief that a proof entails a hypothesis.
pub fn entailment(hypothesis: &str, proof: &str) -> f64 {
    let known = ENTAILED.iter().find(|(h, p, _)| hypothesis.contains(h) && proof.contains(p));
    known.map_or(0.5, |(.., belief)| *belief)
}

/// What it answers to a prompt.
pub fn reply(text: &str) -> Json {
    for (slot, says) in
        [("valid", "true"), ("valid", "false"), ("implied", "true"), ("implied", "false")]
    {
        let output = format!("${slot}$ = {says}");
        if let Some(prompt) = text.strip_suffix(&output) {
            let belief = match prompt.split_once(" ; $proof$ = ") {
                Some((hypothesis, proof)) => entailment(hypothesis, proof),
                None => belief(prompt.rsplit_once("$hypothesis$ = ").map_or("", |(_, it)| it)),
            };
            let p = if says == "true" { belief } else { 1.0 - belief };
            return scored(prompt, &output, p.ln());
        }
    }
    let choice = json!({ "index": 0, "text": proof(text), "finish_reason": "stop" });
    json!({ "choices": [choice], "usage": { "prompt_tokens": 3, "completion_tokens": 2 } })
}

/// A response that scores `output` behind `prompt`, each a single token.
fn scored(prompt: &str, output: &str, logprob: f64) -> Json {
    let logprobs = json!({
        "tokens": [prompt, output],
        "token_logprobs": [null, logprob],
        "top_logprobs": [null, { output: logprob }],
        "text_offset": [0, prompt.chars().count()],
    });
    let text = format!("{prompt}{output}");
    let choice =
        json!({ "index": 0, "text": text, "finish_reason": "length", "logprobs": logprobs });
    json!({ "choices": [choice], "usage": { "prompt_tokens": 3, "completion_tokens": 1 } })
}

/// The rest of a proof that begins as `text` ends.
fn proof(text: &str) -> &'static str {
    let of_nails = PROOFS.iter().find(|(h, _)| text.ends_with(&format!("$hypothesis$ = {h}")));
    if let Some((_, proof)) = of_nails {
        return proof;
    }
    let doubts = text.contains("will not") && text.contains("cannot attract copper");
    match text.rsplit_once("$proof$ = [PREMISE] ") {
        Some((_, "A magnet cannot attract copper.")) => " [PREMISE] A penny is made of copper.",
        Some((_, "A penny is made of copper.")) if doubts => {
            " [PREMISE] A magnet cannot attract copper."
        }
        Some((_, "A penny is made of copper.")) => " [PREMISE] A magnet can attract copper.",
        Some(_) => ".",
        None if text.contains("copper") => {
            "$proof$ = [PREMISE] A penny is made of copper. [PREMISE] A magnet can attract copper."
        }
        None => {
            "$proof$ = [PREMISE] A penny is made of magnetic metal. [PREMISE] A magnet can attract \
             magnetic metal."
        }
    }
}
