//! One pass of the decoder: rows of many texts at once, and what is asked about some of them.

use super::blocks::{Blocks, Span};
use crate::backend::{Backend, DeviceError, How, Input, Layout, Pick, Picked, Picks};
use crate::network::{Head, Stack, Workspace};

/// A decoder's memory and the step that is being put together.
pub struct Step<B: Backend> {
    work: Workspace<B>,
    cache: B::Cache,
    /// Who holds which blocks of the cache.
    pub blocks: Blocks,
    capacity: usize,
    allowed: usize,
    rows: Rows,
    picked: Picked,
    input: B::Input,
    layout: B::Layout,
    source: B::Layout,
}

/// The step as the host sees it.
#[derive(Default)]
struct Rows {
    input: Input,
    layout: Layout,
    source: Layout,
    asked: Vec<u32>,
    picks: Picks,
    copies: Vec<(u32, u32)>,
}

impl<B: Backend> Step<B> {
    /// Steps of up to `capacity` rows, for which there is room in `work`, over a cache of so many
    /// blocks.
    pub fn new(work: Workspace<B>, capacity: usize, cache: B::Cache, blocks: usize) -> Self {
        Self {
            work,
            cache,
            blocks: Blocks::new(blocks),
            capacity,
            allowed: capacity,
            rows: Rows::default(),
            picked: Picked::default(),
            input: B::Input::default(),
            layout: B::Layout::default(),
            source: B::Layout::default(),
        }
    }

    /// The cache, for what an encoder leaves there.
    pub fn cache(&mut self) -> &mut B::Cache {
        &mut self.cache
    }

    /// Most rows of a step.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Lets steps have up to `rows` rows and questions, within the capacity.
    pub fn allow(&mut self, rows: usize) {
        self.allowed = rows.min(self.capacity);
    }

    /// Rows of the step so far.
    pub fn rows(&self) -> usize {
        self.rows.input.tokens.len()
    }

    /// How many more rows fit.
    pub fn room(&self) -> usize {
        self.allowed.saturating_sub(self.rows())
    }

    /// How many more questions fit.
    pub fn room_to_ask(&self) -> usize {
        self.allowed.saturating_sub(self.rows.asked.len())
    }

    /// Begins a step.
    pub fn clear(&mut self) {
        let Rows { input, layout, source, asked, picks, copies } = &mut self.rows;
        input.clear();
        layout.clear();
        source.clear();
        asked.clear();
        picks.clear();
        copies.clear();
    }

    /// Adds the next `tokens` of a text, at most [`Step::room`], whose earlier ones are in `span`.
    /// With `apart`, they go to blocks of their own, so that the text may share all it has so far
    /// with others. Returns the last row, or `None` if the cache is full, which a promise rules
    /// out.
    pub fn feed(
        &mut self,
        span: &mut Span,
        tokens: &[u32],
        source: &Span,
        apart: bool,
    ) -> Option<u32> {
        let start = span.tokens();
        for (index, &token) in tokens.iter().enumerate() {
            let slot = self.blocks.append_apart(span, apart && index == 0)?;
            self.rows.copies.extend(slot.copy);
            self.rows.input.push(token, (start + index) as u32, slot.slot);
        }
        self.rows.layout.push(tokens.len(), span.refs.iter().copied());
        self.rows.source.push(tokens.len(), source.refs.iter().copied());
        Some(self.rows.input.tokens.len() as u32 - 1)
    }

    /// Asks about the token after `row`; the answer's place among all answers. At most
    /// [`Step::room_to_ask`] times.
    pub fn ask(&mut self, row: u32, ask: Ask<'_>) -> usize {
        let picks = &mut self.rows.picks;
        let mut list = |tokens: &[u32]| {
            let first = picks.tokens.len() as u32;
            picks.tokens.extend_from_slice(tokens);
            (first, tokens.len() as u32)
        };
        let (first_banned, banned) = list(ask.banned);
        let how = match ask.how {
            Wanted::How(how) => how,
            Wanted::Among { among, count } => {
                let (first, tokens) = list(among);
                How::Among { first, tokens, count }
            }
        };
        picks.picks.push(Pick { how, first_banned, banned });
        self.rows.asked.push(row);
        self.rows.asked.len() - 1
    }

    /// Computes the step.
    pub fn run(
        &mut self,
        backend: &mut B,
        stack: &Stack<B>,
        head: &Head<B>,
    ) -> Result<&Picked, DeviceError> {
        let Rows { input, layout, source, asked, picks, copies } = &self.rows;
        self.picked.clear();
        if input.tokens.is_empty() {
            return Ok(&self.picked);
        }
        if !copies.is_empty() {
            backend.copy_blocks(&mut self.cache, copies)?;
        }
        backend.input(input, &mut self.input)?;
        backend.layout(layout, &mut self.layout)?;
        let crosses = stack.blocks.iter().any(|block| block.cross.is_some());
        if crosses {
            backend.layout(source, &mut self.source)?;
        }
        let source = crosses.then_some(&self.source);
        let work = &mut self.work;
        stack.forward(backend, &self.input, &self.layout, &mut self.cache, source, work)?;
        if !asked.is_empty() {
            stack.choose(backend, Some(asked), work)?;
            head.pick(backend, stack.chosen(work), picks, &mut self.picked)?;
        }
        Ok(&self.picked)
    }

    /// Computes the step and normalises all its rows; they lie in the workspace.
    pub fn run_all(
        &mut self,
        backend: &mut B,
        stack: &Stack<B>,
    ) -> Result<(&B::Tensor, &B::Layout), DeviceError> {
        let Rows { input, layout, .. } = &self.rows;
        backend.input(input, &mut self.input)?;
        backend.layout(layout, &mut self.layout)?;
        let work = &mut self.work;
        stack.forward(backend, &self.input, &self.layout, &mut self.cache, None, work)?;
        stack.choose(backend, None, work)?;
        Ok((stack.chosen(work), &self.layout))
    }
}

/// A question about the next token.
pub struct Ask<'a> {
    pub how: Wanted<'a>,
    /// What may not be chosen.
    pub banned: &'a [u32],
}

/// What is wanted of the next token.
pub enum Wanted<'a> {
    /// Any but [`How::Among`], whose tokens are given here.
    How(How),
    /// The likeliest `count` of some tokens.
    Among {
        /// The tokens.
        among: &'a [u32],
        count: u32,
    },
}
