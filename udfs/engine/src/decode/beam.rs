//! Beam search for one request, as transformers (5.17) defines it.
//!
//! Each step joins what the live beams offer and keeps the best [`BeamSearch::width`] candidates.
//! Those among the first `beams` that end complete an answer, worth its sum of log-probabilities
//! divided by length^penalty; an end further back is lost. The best `beams` that do not end live
//! on. Sums and scores are f32, as there. Equal sums go to the earlier beam, then to the smaller
//! token.

use crate::backend::Token;

/// Settings of a beam search.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamSettings {
    /// Hypotheses kept per step; at least 1.
    pub beams: u32,
    /// Most answers; at most `beams`.
    pub answers: u32,
    /// Exponent of the length (the end token counts) that divides the sum.
    pub length_penalty: f32,
    /// Ends as soon as `beams` answers are complete, even if a live beam could still do better.
    pub early_stopping: bool,
    /// Most tokens of an answer, the end included; at least 1.
    pub max_tokens: u32,
    /// Tokens that end an answer.
    pub ends: Vec<u32>,
}

/// A live beam: what it continues, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeamContinuation {
    /// Index of the beam it continues, among those that were live before the step.
    pub parent: u32,
    /// Its new token.
    pub token: u32,
}

/// A complete hypothesis.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamAnswer {
    /// Its tokens, with the end if it came to one, and their log-probabilities.
    pub tokens: Vec<Token>,
    /// Sum of their log-probabilities.
    pub logprob: f32,
    /// The sum divided by length^penalty: what orders the answers.
    pub score: f32,
    /// Whether its last token is an end; if not, it was cut at the most tokens allowed.
    pub ended: bool,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub struct BeamSearch {
    settings: BeamSettings,
    /// Tokens of each hypothesis so far.
    length: u32,
    /// All tokens that were kept, each pointing to the one before.
    kept: Vec<BeamToken>,
    live: Vec<LiveBeam>,
    /// What the live beams continue.
    continuations: Vec<BeamContinuation>,
    /// Best first, at most `beams`.
    complete: Vec<CompleteBeam>,
}

#[derive(Clone, Copy, Debug)]
struct BeamToken {
    before: Option<usize>,
    token: Token,
}

#[derive(Clone, Copy, Debug)]
struct LiveBeam {
    last: Option<usize>,
    logprob: f32,
}

#[derive(Clone, Copy, Debug)]
struct CompleteBeam {
    last: usize,
    logprob: f32,
    score: f32,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    parent: usize,
    token: Token,
    /// Of all its tokens.
    logprob: f32,
}

impl BeamSearch {
    /// A search that has one live beam, the empty one.
    pub fn new(settings: BeamSettings) -> Self {
        Self {
            settings,
            length: 0,
            kept: Vec::new(),
            live: vec![LiveBeam { last: None, logprob: 0.0 }],
            continuations: Vec::new(),
            complete: Vec::new(),
        }
    }

    /// How many candidates each live beam must offer per step (fewer where fewer are allowed): even
    /// if one beam makes all the best and they end in every way, `beams` are left to live on.
    pub fn width(&self) -> u32 {
        let ends = u32::try_from(self.settings.ends.len()).unwrap_or(u32::MAX);
        self.settings.beams.saturating_mul(ends.saturating_add(1))
    }

    /// Live beams now: 1 before the first step, then `beams` (fewer where too little was allowed),
    /// 0 when the search is over.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Takes a step: `candidates` are the likeliest tokens of each live beam, best first. The new
    /// live beams, best first, or `None` when the search is over. An impossible candidate
    /// (log-probability -inf) is no candidate.
    pub fn advance(&mut self, candidates: &[&[Token]]) -> Option<&[BeamContinuation]> {
        let parents = std::mem::take(&mut self.live);
        self.continuations.clear();
        self.length += 1;
        let beams = self.settings.beams as usize;
        let penalty = self.penalty();
        for (rank, candidate) in self.best(&parents, candidates).into_iter().enumerate() {
            let Candidate { parent, token, logprob } = candidate;
            let ends = self.is_end(token.id) || self.length >= self.settings.max_tokens;
            if ends && rank < beams {
                let last = self.keep(parents[parent].last, token);
                self.complete.push(CompleteBeam { last, logprob, score: logprob / penalty });
            } else if !ends && self.live.len() < beams {
                let last = Some(self.keep(parents[parent].last, token));
                self.live.push(LiveBeam { last, logprob });
                let (parent, token) = (parent as u32, token.id);
                self.continuations.push(BeamContinuation { parent, token });
            }
        }
        // Stable: an older answer stays before an equal new one.
        self.complete.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.complete.truncate(beams);
        if self.is_over(penalty) {
            self.live.clear();
            return None;
        }
        Some(&self.continuations)
    }

    /// The answers so far, best first; all of them once the search is over. Empty only if nothing
    /// that was allowed came to an end.
    pub fn answers(&self) -> Vec<BeamAnswer> {
        let best = self.complete.iter().take(self.settings.answers as usize);
        best.map(|complete| self.answer(complete)).collect()
    }

    /// The best candidates of all beams, best first.
    fn best(&self, parents: &[LiveBeam], candidates: &[&[Token]]) -> Vec<Candidate> {
        let mut all: Vec<Candidate> = Vec::new();
        for (parent, (live, tokens)) in parents.iter().zip(candidates).enumerate() {
            all.extend(tokens.iter().filter(|token| token.logprob > f32::NEG_INFINITY).map(
                |token| Candidate { parent, token: *token, logprob: live.logprob + token.logprob },
            ));
        }
        all.sort_unstable_by(|a, b| {
            let places = (a.parent, a.token.id).cmp(&(b.parent, b.token.id));
            b.logprob.total_cmp(&a.logprob).then(places)
        });
        all.truncate(self.width() as usize);
        all
    }

    /// Whether no live beam can change the answers, by the measure that transformers takes: the
    /// best sum, at the present length.
    fn is_over(&self, penalty: f32) -> bool {
        let Some(best) = self.live.first() else {
            return true;
        };
        let full = self.complete.len() == self.settings.beams as usize;
        let Some(worst) = self.complete.last().filter(|_| full) else {
            return false;
        };
        self.settings.early_stopping || best.logprob / penalty <= worst.score
    }

    /// What divides the sum of a hypothesis of the present length.
    fn penalty(&self) -> f32 {
        f64::from(self.length).powf(f64::from(self.settings.length_penalty)) as f32
    }

    fn is_end(&self, token: u32) -> bool {
        self.settings.ends.contains(&token)
    }

    fn keep(&mut self, before: Option<usize>, token: Token) -> usize {
        self.kept.push(BeamToken { before, token });
        self.kept.len() - 1
    }

    fn answer(&self, complete: &CompleteBeam) -> BeamAnswer {
        let last = Some(complete.last);
        let path = std::iter::successors(last, |&at| self.kept[at].before);
        let mut tokens: Vec<Token> = path.map(|at| self.kept[at].token).collect();
        tokens.reverse();
        let ended = tokens.last().is_some_and(|token| self.is_end(token.id));
        BeamAnswer { tokens, logprob: complete.logprob, score: complete.score, ended }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const END: u32 = 9;

    fn search(beams: u32, max_tokens: u32) -> BeamSearch {
        BeamSearch::new(BeamSettings {
            beams,
            answers: beams,
            length_penalty: 0.0,
            early_stopping: false,
            max_tokens,
            ends: vec![END],
        })
    }

    fn tokens(logprobs: &[(u32, f32)]) -> Vec<Token> {
        logprobs.iter().map(|&(id, logprob)| Token { id, logprob }).collect()
    }

    fn pairs(continuations: Option<&[BeamContinuation]>) -> Vec<(u32, u32)> {
        continuations.unwrap().iter().map(|c| (c.parent, c.token)).collect()
    }

    #[test]
    fn beams_live_on_and_an_end_too_far_back_is_lost() {
        let mut search = search(2, 10);
        assert_eq!(search.width(), 4);
        let first = tokens(&[(1, -1.0), (2, -2.0), (END, -3.0), (3, -4.0)]);
        assert_eq!(pairs(search.advance(&[&first])), [(0, 1), (0, 2)]);
        assert_eq!(search.answers(), []);
        let one = tokens(&[(5, -5.0), (6, -6.0)]);
        let two = tokens(&[(END, -0.5), (7, -1.0)]);
        assert_eq!(pairs(search.advance(&[&one, &two])), [(1, 7), (0, 5)]);
        let said = tokens(&[(2, -2.0), (END, -0.5)]);
        let answer = BeamAnswer { tokens: said, logprob: -2.5, score: -2.5, ended: true };
        assert_eq!(search.answers(), [answer]);
    }

    #[test]
    fn equal_sums_go_to_the_earlier_beam_and_the_smaller_token() {
        let mut search = search(2, 10);
        let first = tokens(&[(1, -1.0), (2, -1.0), (3, -1.0)]);
        assert_eq!(pairs(search.advance(&[&first])), [(0, 1), (0, 2)]);
        let second = tokens(&[(4, -1.0), (5, -1.0)]);
        assert_eq!(pairs(search.advance(&[&second, &second])), [(0, 4), (0, 5)]);
    }

    #[test]
    fn the_longest_answers_are_cut() {
        let mut search = search(2, 1);
        let first = tokens(&[(1, -1.0), (END, -2.0), (3, -3.0)]);
        assert_eq!(search.advance(&[&first]), None);
        let answers = search.answers();
        assert_eq!((&answers[0].tokens[..], answers[0].ended), (&first[..1], false));
        assert_eq!((&answers[1].tokens[..], answers[1].ended), (&first[1..2], true));
        assert_eq!(answers.len(), 2);
    }

    #[test]
    fn where_little_is_allowed_there_are_fewer_beams_and_answers() {
        let mut search = search(3, 10);
        let first = tokens(&[(1, -1.0), (2, f32::NEG_INFINITY)]);
        assert_eq!(pairs(search.advance(&[&first])), [(0, 1)]);
        assert_eq!(search.live(), 1);
        assert_eq!(search.advance(&[&tokens(&[(END, -1.0)])]), None);
        assert_eq!(search.live(), 0);
        assert_eq!(search.answers().len(), 1);
        assert_eq!(search.advance(&[]), None);
        assert_eq!(search.answers().len(), 1);
    }

    /// The best sum of all sequences, by trying them all.
    fn exhaustive(table: &[[f32; 3]], last: usize, steps: u32) -> f32 {
        let next = |token: usize| match (token, steps) {
            (2, _) | (_, 1) => 0.0,
            _ => exhaustive(table, token, steps - 1),
        };
        (0..3).map(|token| table[last][token] + next(token)).fold(f32::NEG_INFINITY, f32::max)
    }

    proptest! {
        #[test]
        fn enough_beams_find_the_best(
            table in proptest::array::uniform2(proptest::array::uniform3(-9.0f32..0.0)),
            steps in 1u32..6,
        ) {
            let mut search = BeamSearch::new(BeamSettings {
                ends: vec![2],
                ..search(64, steps).settings
            });
            let rows = table.map(|row| tokens(&[(0, row[0]), (1, row[1]), (2, row[2])]));
            let mut lasts = vec![0];
            while !lasts.is_empty() {
                let tokens: Vec<&[Token]> = lasts.iter().map(|&last| &rows[last][..]).collect();
                let next = search.advance(&tokens).unwrap_or_default();
                lasts = next.iter().map(|next| next.token as usize).collect();
            }
            let best = search.answers()[0].score;
            prop_assert!((best - exhaustive(&table, 0, steps)).abs() < 1e-4);
        }
    }
}
