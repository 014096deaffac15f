//! One generation under way: its answers so far, and what they need next.

use super::blocks::{Blocks, Span, blocks_for};
use super::job::{GenerateWork, Job};
use super::sequence::{Sequence, ask, choose, forced};
use super::step::Step;
use super::words::Words;
use crate::backend::{Backend, Token};
use crate::decode::beam::{BeamSearch, BeamSettings};
use crate::request::{Answer, Body, Finish, Generation, RequestError, Strategy};

/// A generation under way.
pub struct Group {
    pub job: Job<GenerateWork>,
    pub source: Span,
    promised: usize,
    sequences: Vec<Sequence>,
    beams: Option<BeamSearch>,
    /// Whether the opening is read and its end was asked about.
    opened: bool,
}

/// The most blocks that `work` takes at a time.
pub fn blocks_needed(work: &GenerateWork) -> usize {
    let sequences = sequences(work.strategy);
    let read: usize = work.passages.iter().map(|text| blocks_for(text.len())).sum();
    // Each sequence may hold a copy of the opening's last block; while beams change places, old and new
    // ones are there at once.
    let own = blocks_for(work.max_tokens as usize) + 2;
    read + blocks_for(work.opening.len()) + own * sequences
}

/// Answers under way at a time.
pub fn sequences(strategy: Strategy) -> usize {
    match strategy {
        Strategy::Greedy => 1,
        Strategy::Sample { samples, .. } => samples as usize,
        Strategy::Beam { beams, .. } => beams as usize,
    }
}

impl Group {
    /// Begins `job` with what the encoder left, and the blocks it was promised.
    pub fn new(job: Job<GenerateWork>, source: Span, promised: usize, ends: &[u32]) -> Self {
        let work = &job.work;
        let beams = match work.strategy {
            Strategy::Beam { beams, answers, length_penalty, early_stopping } => {
                Some(BeamSearch::new(BeamSettings {
                    beams,
                    answers,
                    length_penalty,
                    early_stopping,
                    max_tokens: work.max_tokens,
                    ends: ends.to_vec(),
                }))
            }
            Strategy::Greedy | Strategy::Sample { .. } => None,
        };
        let first = Sequence::new(work);
        Self { job, source, promised, sequences: vec![first], beams, opened: false }
    }

    /// Adds what it needs to the step, as far as there is room; false if the cache is full, which
    /// its promise rules out.
    pub fn feed<B: Backend>(&mut self, step: &mut Step<B>, words: &Words) -> bool {
        let work = &self.job.work;
        // Beams are compared with each other: all of them take a step, or none.
        if self.beams.is_some() && self.sequences.len() > step.room().min(step.room_to_ask()) {
            return true;
        }
        let questions =
            if self.opened || self.beams.is_some() { 1 } else { sequences(work.strategy) };
        for sequence in &mut self.sequences {
            sequence.asked = None;
            let total = work.opening.len() + sequence.new.len();
            let room = step.room().min(total - sequence.fed);
            if sequence.end.is_some() || room == 0 || step.room_to_ask() < questions {
                continue;
            }
            let Sequence { span, new, fed, .. } = sequence;
            // New tokens come after the whole opening, one at a time.
            let tokens = match fed.checked_sub(work.opening.len()) {
                None | Some(0) if *fed < work.opening.len() => &work.opening[*fed..*fed + room],
                read => &new[read.unwrap_or(0)..][..room],
            };
            let Some(row) = step.feed(span, tokens, &self.source, false) else { return false };
            sequence.fed += room;
            if sequence.fed == total {
                let width = self.beams.as_ref().map(BeamSearch::width);
                for sample in 0..questions as u32 {
                    let sample = if self.opened { sequence.sample } else { sample };
                    let ask = ask(work, sequence, sample, width, &words.special);
                    let place = step.ask(row, ask);
                    sequence.asked.get_or_insert(place);
                }
            }
        }
        true
    }

    /// Takes the answers of the step. `picked` gives the tokens for a question's place.
    pub fn take<'p>(
        &mut self,
        blocks: &mut Blocks,
        picked: impl Fn(usize) -> &'p [Token],
        words: &Words,
    ) -> Result<(), RequestError> {
        if self.beams.is_some() {
            return self.take_beams(blocks, picked, words);
        }
        if !self.opened {
            let Some(place) = self.sequences[0].asked else { return Ok(()) };
            self.opened = true;
            let samples = sequences(self.job.work.strategy);
            self.branch(blocks, samples);
            for (sample, sequence) in self.sequences.iter_mut().enumerate() {
                sequence.asked = Some(place + sample);
            }
        }
        let Self { job, sequences, .. } = self;
        for sequence in sequences.iter_mut() {
            let Some(place) = sequence.asked.take() else { continue };
            let token = choose(&job.work, sequence, picked(place))?;
            sequence.push(&job.work, token, words);
            if sequence.end.is_some() {
                blocks.release(&mut sequence.span);
            }
        }
        Ok(())
    }

    /// Makes `count` sequences of the first.
    fn branch(&mut self, blocks: &mut Blocks, count: usize) {
        for sample in 1..count {
            let span = blocks.share(&self.sequences[0].span);
            let sequence = self.sequences[0].like(span, sample as u32);
            self.sequences.push(sequence);
        }
    }

    fn take_beams<'p>(
        &mut self,
        blocks: &mut Blocks,
        picked: impl Fn(usize) -> &'p [Token],
        words: &Words,
    ) -> Result<(), RequestError> {
        let Some(beams) = &mut self.beams else { return Ok(()) };
        // Beams are compared with each other, so all of them must have been asked.
        let places: Option<Vec<usize>> =
            self.sequences.iter().map(|sequence| sequence.asked).collect();
        let Some(places) = places else { return Ok(()) };
        self.opened = true;
        let step = self.sequences.first().map_or(0, |sequence| sequence.new.len() as u32);
        // A token that must come weighs nothing, as transformers has it.
        let forced = forced(&self.job.work, step, &words.special)
            .map(|token| token.map(|id| Token { id, logprob: 0.0 }));
        let candidates: Vec<&[Token]> = places
            .iter()
            .map(|&place| forced.as_ref().map_or_else(|| picked(place), |token| &token[..]))
            .collect();
        if candidates.iter().flat_map(|tokens| tokens.iter()).any(|token| token.logprob.is_nan()) {
            return Err(super::not_a_number());
        }
        let next = beams.advance(&candidates).map(<[_]>::to_vec);
        let mut old = std::mem::take(&mut self.sequences);
        for continuation in next.iter().flatten() {
            let parent = &old[continuation.parent as usize];
            let mut sequence = parent.like(blocks.share(&parent.span), 0);
            sequence.push(&self.job.work, Token { id: continuation.token, logprob: 0.0 }, words);
            // Only the search knows when a beam ends.
            sequence.end = None;
            self.sequences.push(sequence);
        }
        for sequence in &mut old {
            blocks.release(&mut sequence.span);
        }
        Ok(())
    }

    /// Whether all answers are there.
    pub fn is_done(&self) -> bool {
        self.opened && self.sequences.iter().all(|sequence| sequence.end.is_some())
    }

    /// Gives back what it holds, and answers.
    pub fn finish(mut self, blocks: &mut Blocks, words: &Words, failure: Option<RequestError>) {
        self.release(blocks);
        let answer = match failure {
            Some(failure) => Err(failure),
            None => self.answer(words),
        };
        self.job.answer(answer);
    }

    /// Gives back what it holds; the job can be begun again.
    pub fn give_up(mut self, blocks: &mut Blocks) -> Job<GenerateWork> {
        self.release(blocks);
        self.job
    }

    fn release(&mut self, blocks: &mut Blocks) {
        for sequence in &mut self.sequences {
            blocks.release(&mut sequence.span);
        }
        blocks.absolve(self.promised);
        blocks.release(&mut self.source);
    }

    fn answer(&self, words: &Words) -> Result<Answer, RequestError> {
        let work = &self.job.work;
        let text = |new: &[u32], end: Option<usize>| {
            if let Some(text) = work.among.as_ref().and_then(|among| among.text(new)) {
                return Ok([&work.prefix, text].concat());
            }
            let added = words.added(work, new)?;
            Ok([&work.prefix, added.get(..end.unwrap_or(added.len())).unwrap_or(&added)].concat())
        };
        let generations: Result<Vec<Generation>, RequestError> = match &self.beams {
            Some(beams) => beams
                .answers()
                .into_iter()
                .map(|answer| {
                    Ok(Generation {
                        text: text(&answer.tokens, None)?,
                        finish: if answer.ended { Finish::End } else { Finish::Length },
                        logprob: Some(f64::from(answer.logprob)),
                        score: Some(f64::from(answer.score)),
                        output_tokens: answer.tokens.len() as u32,
                    })
                })
                .collect(),
            None => self
                .sequences
                .iter()
                .map(|sequence| {
                    let (finish, end) = sequence.end.unwrap_or((Finish::Length, None));
                    Ok(Generation {
                        text: text(&sequence.new, end)?,
                        finish,
                        logprob: Some(sequence.logprob),
                        score: None,
                        output_tokens: sequence.new.len() as u32,
                    })
                })
                .collect(),
        };
        let generations = generations?;
        if generations.is_empty() {
            return Err(RequestError::Failed("nothing that was allowed came to an end".to_owned()));
        }
        Ok(Answer {
            prompt_tokens: work.prompt_tokens,
            prompt_truncated: work.prompt_truncated,
            body: Body::Generations(generations),
        })
    }
}
