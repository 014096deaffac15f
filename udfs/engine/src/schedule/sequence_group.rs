//! The sequences of one generation: samples or beams, and what they need next.

use super::block_pool::{BlockPool, BlockTable, blocks_for};
use super::caches::{Caches, Held, Reads};
use super::detokenizer::Detokenizer;
use super::job::{GenerateWork, Job};
use super::prefix_cache::{PrefixCache, Scheduled};
use super::sequence::{Sequence, chosen_token, forced, sampling_request};
use super::step::Step;
use crate::backend::{Backend, Token};
use crate::decode::beam::{BeamSearch, BeamSettings};
use crate::request::{Answer, Body, Finish, Generation, RequestError, Strategy};

/// A generation under way, with a sequence per sample or beam.
pub struct SequenceGroup {
    pub job: Job<GenerateWork>,
    encoder_states: BlockTable,
    held: Held,
    /// Whether what its prompt shares with others is computed, or in the step under way.
    begun: bool,
    sequences: Vec<Sequence>,
    beams: Option<BeamSearch>,
    /// Whether the decoder prompt is read and the token after it was sampled, or is in a step under way.
    prompt_done: bool,
    /// Why there will be no answer.
    pub failure: Option<RequestError>,
}

/// The most blocks that `work` takes at a time, alone.
pub fn blocks_needed(work: &GenerateWork) -> usize {
    let Reads { passages, prefix, own_blocks } = reads(work);
    let read: usize = passages.iter().map(|text| blocks_for(text.len())).sum();
    read + blocks_for(prefix.len()) + own_blocks
}

/// What `work` reads, and the blocks for its own tokens.
pub fn reads(work: &GenerateWork) -> Reads<'_> {
    // What a decoder writes after other texts differs.
    let alone = work.passages.is_empty();
    let shared = if alone { PrefixCache::shared_tokens(&work.decoder_prompt) } else { 0 };
    // All but the last token of a shared prompt are others' too.
    let prompt = if shared > 0 { 0 } else { blocks_for(work.decoder_prompt.len()) };
    // Each sequence may hold a copy of the decoder prompt's last block; while beams change places, old and new
    // ones are there at once.
    let own = (blocks_for(work.max_tokens as usize) + 2) * sequences(work.strategy);
    Reads {
        passages: &work.passages,
        prefix: &work.decoder_prompt[..shared],
        own_blocks: prompt + own,
    }
}

/// Tokens that `work` reads before it writes.
pub fn prompt_tokens(work: &GenerateWork) -> usize {
    work.passages.iter().map(Vec::len).sum::<usize>() + work.decoder_prompt.len()
}

/// Answers under way at a time.
pub fn sequences(strategy: Strategy) -> usize {
    match strategy {
        Strategy::Greedy => 1,
        Strategy::Sample { samples, .. } => samples as usize,
        Strategy::Beam { beams, .. } => beams as usize,
    }
}

impl SequenceGroup {
    /// Begins `job`, which holds `held`, and whose encoder states are there.
    pub fn new(
        job: Job<GenerateWork>,
        encoder_states: BlockTable,
        held: Held,
        ends: &[u32],
    ) -> Self {
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
        let sequences = vec![Sequence::new(work, held.shared)];
        let (begun, prompt_done) = (false, false);
        let failure = None;
        Self { job, encoder_states, held, begun, sequences, beams, prompt_done, failure }
    }

    /// Whether its next tokens can be computed before those that were sampled are read: not where tokens decide
    /// which beams go on, or which tokens may come next.
    pub fn goes_on_unread(&self) -> bool {
        let GenerateWork { choices, grammar, .. } = &self.job.work;
        let is_free = self.beams.is_none() && choices.is_none() && grammar.is_none();
        is_free || self.sequences.iter().all(|sequence| sequence.sampled.is_none())
    }

    /// Adds its next tokens to the step, as far as there is room. Fails if no caller waits for it
    /// any more, or if the KV cache is full, which its reservation rules out.
    pub fn schedule<B: Backend>(
        &mut self,
        step: &mut Step<B>,
        caches: &mut Caches,
        detokenizer: &Detokenizer,
    ) {
        if self.job.is_cancelled() {
            self.failure = Some(RequestError::Cancelled);
        } else if !self.add_tokens(step, caches, detokenizer) {
            self.failure = Some(RequestError::Failed("the KV cache is full".to_owned()));
        }
    }

    /// [`SequenceGroup::schedule`]; false if the KV cache is full.
    fn add_tokens<B: Backend>(
        &mut self,
        step: &mut Step<B>,
        caches: &mut Caches,
        detokenizer: &Detokenizer,
    ) -> bool {
        if let Some(node) = self.held.prefix.filter(|_| !self.begun) {
            match caches.prefix.schedule(node, step) {
                None => return false,
                Some(Scheduled::Later) => return true,
                Some(Scheduled::Whole(table)) => self.sequences[0].table = table,
            }
            self.begun = true;
        }
        let work = &self.job.work;
        // Beams are compared with each other: all of them take a step, or none.
        if self.beams.is_some() && self.sequences.len() > step.room().min(step.sample_room()) {
            return true;
        }
        let requests =
            if self.prompt_done || self.beams.is_some() { 1 } else { sequences(work.strategy) };
        for sequence in &mut self.sequences {
            let written = sequence.written();
            let total = work.decoder_prompt.len() + written;
            let room = step.room().min(total - sequence.fed);
            // The last token is known to be the last before it is read.
            let last = sequence.sampled.is_some() && written >= work.max_tokens as usize;
            if sequence.end.is_some() || last || room == 0 || step.sample_room() < requests {
                continue;
            }
            let Sequence { table, new, fed, sampled, .. } = sequence;
            let states = &self.encoder_states;
            let row = if let Some(from) = *sampled {
                step.add_sampled(table, from, states)
            } else {
                // New tokens come after the whole decoder prompt, one at a time.
                let tokens = match fed.checked_sub(work.decoder_prompt.len()) {
                    None | Some(0) if *fed < work.decoder_prompt.len() => {
                        &work.decoder_prompt[*fed..*fed + room]
                    }
                    read => &new[read.unwrap_or(0)..][..room],
                };
                // What others share stays as it is.
                let new_block = *fed == self.held.shared;
                step.add_tokens(table, tokens, states, new_block)
            };
            let Some(row) = row else { return false };
            sequence.fed += room;
            if sequence.fed == total {
                let width = self.beams.as_ref().map(BeamSearch::width);
                if let Some(grammar) = &mut sequence.grammar {
                    grammar.mask(&mut sequence.mask);
                }
                for sample in 0..requests as u32 {
                    let sample = if self.prompt_done { sequence.sample } else { sample };
                    let request =
                        sampling_request(work, sequence, sample, width, &detokenizer.special);
                    let place = step.request_sample(row, request);
                    sequence.sampled_next.get_or_insert(place);
                }
            }
        }
        if !self.prompt_done
            && self.beams.is_none()
            && let Some(place) = self.sequences[0].sampled_next
        {
            self.prompt_done = true;
            self.branch(&mut step.blocks, place, sequences(self.job.work.strategy));
        }
        true
    }

    /// The step that was scheduled last is the one whose tokens are read next.
    pub fn step_on(&mut self) {
        for sequence in &mut self.sequences {
            sequence.sampled = sequence.sampled_next.take();
        }
    }

    /// Takes the sampled tokens of the step that is read. `sampled` gives the tokens of a result.
    pub fn take<'p>(
        &mut self,
        blocks: &mut BlockPool,
        caches: &mut Caches,
        sampled: impl Fn(usize) -> &'p [Token],
        detokenizer: &Detokenizer,
    ) -> Result<(), RequestError> {
        if self.beams.is_some() {
            return self.take_beams(blocks, sampled, detokenizer);
        }
        let Self { job, sequences, held, .. } = self;
        for sequence in sequences.iter_mut() {
            let Some(place) = sequence.sampled.take() else { continue };
            let token = chosen_token(&job.work, sequence, sampled(place))?;
            sequence.push(&job.work, token, detokenizer);
            if sequence.end.is_some() {
                if sequence.sampled_next.take().is_some() {
                    // The step behind went on with it: as if it had not.
                    sequence.fed -= 1;
                    blocks.drop_last(&mut sequence.table);
                }
                if job.work.passages.is_empty() {
                    // The next turn of a chat begins with this one.
                    let read = [&job.work.decoder_prompt, &sequence.new[..]].concat();
                    let Sequence { table, fed, .. } = &*sequence;
                    caches.prefix.insert(&read[..*fed], table, &mut held.reserved, blocks);
                }
                blocks.free_table(&mut sequence.table);
            }
        }
        Ok(())
    }

    /// Makes `count` sequences of the first, whose first tokens are the results from `place` on.
    fn branch(&mut self, blocks: &mut BlockPool, place: usize, count: usize) {
        for sample in 1..count {
            let table = blocks.fork(&self.sequences[0].table);
            let mut sequence = self.sequences[0].like(table, sample as u32);
            sequence.sampled_next = Some(place + sample);
            self.sequences.push(sequence);
        }
    }

    fn take_beams<'p>(
        &mut self,
        blocks: &mut BlockPool,
        sampled: impl Fn(usize) -> &'p [Token],
        detokenizer: &Detokenizer,
    ) -> Result<(), RequestError> {
        let Some(beams) = &mut self.beams else { return Ok(()) };
        // Beams are compared with each other, so all of them must have been sampled.
        let places: Option<Vec<usize>> =
            self.sequences.iter().map(|sequence| sequence.sampled).collect();
        let Some(places) = places else { return Ok(()) };
        self.prompt_done = true;
        let step = self.sequences.first().map_or(0, |sequence| sequence.new.len() as u32);
        // A token that must come weighs nothing, as transformers has it.
        let forced = forced(&self.job.work, step, &detokenizer.special)
            .map(|token| token.map(|id| Token { id, logprob: 0.0 }));
        let candidates: Vec<&[Token]> = places
            .iter()
            .map(|&place| forced.as_ref().map_or_else(|| sampled(place), |token| &token[..]))
            .collect();
        if candidates.iter().flat_map(|tokens| tokens.iter()).any(|token| token.logprob.is_nan()) {
            return Err(super::not_a_number());
        }
        let next = beams.advance(&candidates).map(<[_]>::to_vec);
        let mut old = std::mem::take(&mut self.sequences);
        for continuation in next.iter().flatten() {
            let parent = &old[continuation.parent as usize];
            let mut sequence = parent.like(blocks.fork(&parent.table), 0);
            sequence.push(
                &self.job.work,
                Token { id: continuation.token, logprob: 0.0 },
                detokenizer,
            );
            // Only the search knows when a beam ends.
            sequence.end = None;
            self.sequences.push(sequence);
        }
        for sequence in &mut old {
            blocks.free_table(&mut sequence.table);
        }
        Ok(())
    }

    /// Whether all answers are there, or never will be.
    pub fn is_done(&self) -> bool {
        self.failure.is_some()
            || self.prompt_done && self.sequences.iter().all(|sequence| sequence.end.is_some())
    }

    /// Tokens of its prompt and of its answers, as far as they were read.
    pub fn requested_tokens(&self) -> usize {
        let read = self.job.work.decoder_prompt.len();
        // A step may have gone on with a token that the host never saw.
        let new = |it: &Sequence| it.fed.saturating_sub(read).min(it.new.len());
        let new = self.sequences.iter().map(new);
        prompt_tokens(&self.job.work) + new.sum::<usize>()
    }

    /// Frees its blocks, and answers.
    pub fn finish(
        mut self,
        blocks: &mut BlockPool,
        caches: &mut Caches,
        detokenizer: &Detokenizer,
    ) {
        self.free(blocks);
        let answer = match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.answer(detokenizer),
        };
        caches.release(self.held, blocks);
        self.job.answer(answer);
    }

    /// Frees its blocks; the job can be begun again.
    pub fn give_up(mut self, blocks: &mut BlockPool, caches: &mut Caches) -> Job<GenerateWork> {
        self.free(blocks);
        caches.release(self.held, blocks);
        self.job
    }

    fn free(&mut self, blocks: &mut BlockPool) {
        for sequence in &mut self.sequences {
            blocks.free_table(&mut sequence.table);
        }
        blocks.free_table(&mut self.encoder_states);
    }

    fn answer(&self, detokenizer: &Detokenizer) -> Result<Answer, RequestError> {
        let work = &self.job.work;
        let text = |new: &[u32], end: Option<usize>| {
            if let Some(text) = work.choices.as_ref().and_then(|choices| choices.text(new)) {
                return Ok([&work.prefix, text].concat());
            }
            let added = detokenizer.added(&work.decoder_prompt, new)?;
            Ok([&work.prefix, added.get(..end.unwrap_or(added.len())).unwrap_or(&added)].concat())
        };
        let token_logprobs = |new: &[u32], logprobs: &[f32], text: &str| {
            let text = text.strip_prefix(&work.prefix).unwrap_or(text);
            let all = || {
                let logprobs = logprobs.iter().copied();
                detokenizer.token_logprobs(&work.decoder_prompt, new, text, logprobs)
            };
            work.logprobs.then(all)
        };
        let generations: Result<Vec<Generation>, RequestError> = match &self.beams {
            Some(beams) => beams
                .answers()
                .into_iter()
                .map(|answer| {
                    let (new, logprobs): (Vec<u32>, Vec<f32>) =
                        answer.tokens.iter().map(|token| (token.id, token.logprob)).unzip();
                    let text = text(&new, None)?;
                    Ok(Generation {
                        logprobs: token_logprobs(&new, &logprobs, &text),
                        text,
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
                    let text = text(&sequence.new, end)?;
                    Ok(Generation {
                        logprobs: token_logprobs(&sequence.new, &sequence.logprobs, &text),
                        text,
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
            return Err(RequestError::Failed(
                "beam search ended without a complete hypothesis".to_owned(),
            ));
        }
        Ok(Answer {
            prompt_tokens: work.prompt_tokens,
            prompt_truncated: work.prompt_truncated,
            body: Body::Generations(generations),
        })
    }
}
