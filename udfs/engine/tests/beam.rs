//! Beam search against the answers of transformers, made by `data/make_beam.py`.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use proofmill_engine::backend::Token;
use proofmill_engine::decode::beam::{BeamSearch, BeamSettings};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    words: usize,
    start: u32,
    /// By step, last token and next token.
    logprobs: Vec<f32>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    beams: u32,
    answers: u32,
    length_penalty: f32,
    early_stopping: bool,
    max_tokens: u32,
    ends: Vec<u32>,
    /// Tokens and score of each answer.
    found: Vec<(Vec<u32>, f32)>,
}

impl Golden {
    /// The likeliest tokens after `last`, best first.
    fn best(&self, step: usize, last: u32, count: usize) -> Vec<Token> {
        let row = (step * self.words + last as usize) * self.words;
        let row = &self.logprobs[row..row + self.words];
        let mut tokens: Vec<Token> =
            (0..).zip(row).map(|(id, &logprob)| Token { id, logprob }).collect();
        tokens.sort_by(|a, b| b.logprob.total_cmp(&a.logprob));
        tokens.truncate(count);
        tokens
    }

    /// The search of a case, to its end.
    fn search(&self, case: &Case) -> BeamSearch {
        let mut search = BeamSearch::new(BeamSettings {
            beams: case.beams,
            answers: case.answers,
            length_penalty: case.length_penalty,
            early_stopping: case.early_stopping,
            max_tokens: case.max_tokens,
            ends: case.ends.clone(),
        });
        let mut lasts = vec![self.start];
        for step in 0.. {
            assert_eq!(search.live(), lasts.len());
            let width = search.width() as usize;
            let tokens: Vec<_> = lasts.iter().map(|&last| self.best(step, last, width)).collect();
            let tokens: Vec<&[Token]> = tokens.iter().map(Vec::as_slice).collect();
            let Some(continuations) = search.advance(&tokens) else { break };
            lasts = continuations.iter().map(|continuation| continuation.token).collect();
        }
        assert_eq!(search.live(), 0);
        search
    }
}

#[test]
fn answers_are_those_of_transformers() {
    let golden: Golden = serde_json::from_str(include_str!("data/beam.json")).unwrap();
    assert!(golden.cases.len() > 90);
    for (index, case) in golden.cases.iter().enumerate() {
        let answers = golden.search(case).answers();
        let ids = |tokens: &[Token]| tokens.iter().map(|token| token.id).collect::<Vec<u32>>();
        let found: Vec<_> = answers.iter().map(|a| (ids(&a.tokens), a.score)).collect();
        assert_eq!(found, case.found, "case {index}");
        for answer in answers {
            let ended = case.ends.contains(&answer.tokens.last().unwrap().id);
            assert_eq!(answer.ended, ended, "case {index}");
            let sum: f32 = answer.tokens.iter().map(|token| token.logprob).sum();
            assert!((answer.logprob - sum).abs() <= 1e-5 * sum.abs(), "case {index}");
            let length = answer.tokens.len() as f32;
            let score = answer.logprob / length.powf(case.length_penalty);
            assert!((answer.score - score).abs() <= 1e-5 * score.abs(), "case {index}");
        }
    }
}
