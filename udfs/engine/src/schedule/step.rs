//! One pass of the decoder over rows of many sequences, and the sampling of some of them.

use super::block_pool::{BlockPool, BlockTable};
use crate::backend::{
    AttentionMetadata, Backend, DeviceError, Input, RowSampling, SamplerOutput, SamplingMetadata,
    SamplingMethod,
};
use crate::network::{LmHead, RequestedRows, Stack, Workspace};

/// A decoder's buffers and the step that is being put together.
pub struct Step<B: Backend> {
    work: Workspace<B>,
    cache: B::Cache,
    /// The blocks of the KV cache.
    pub blocks: BlockPool,
    capacity: usize,
    allowed: usize,
    rows: Rows,
    output: SamplerOutput,
    /// What the last launched step sampled, for the one behind it.
    tokens: B::Tokens,
    input: B::Input,
    metadata: B::Metadata,
    cross_metadata: B::Metadata,
}

/// The step as the host sees it.
#[derive(Default)]
struct Rows {
    input: Input,
    metadata: AttentionMetadata,
    cross_metadata: AttentionMetadata,
    sampled_rows: Vec<u32>,
    sampling: SamplingMetadata,
    copies: Vec<(u32, u32)>,
}

impl<B: Backend> Step<B> {
    /// Steps of up to `capacity` rows, for which there is room in `work` and `tokens`, over a cache of so
    /// many blocks.
    pub fn new(
        (work, tokens): (Workspace<B>, B::Tokens),
        capacity: usize,
        cache: B::Cache,
        blocks: usize,
    ) -> Self {
        Self {
            work,
            cache,
            blocks: BlockPool::new(blocks),
            capacity,
            allowed: capacity,
            rows: Rows::default(),
            output: SamplerOutput::default(),
            tokens,
            input: B::Input::default(),
            metadata: B::Metadata::default(),
            cross_metadata: B::Metadata::default(),
        }
    }

    /// The KV cache, for the cross-attention keys and values of an encoder.
    pub fn cache(&mut self) -> &mut B::Cache {
        &mut self.cache
    }

    /// Most rows of a step.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Lets steps have up to `rows` rows and sampled rows, within the capacity.
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

    /// How many more rows can be sampled.
    pub fn sample_room(&self) -> usize {
        self.allowed.saturating_sub(self.rows.sampled_rows.len())
    }

    /// Begins a step.
    pub fn clear(&mut self) {
        let Rows { input, metadata, cross_metadata, sampled_rows, sampling, copies } =
            &mut self.rows;
        input.clear();
        metadata.clear();
        cross_metadata.clear();
        sampled_rows.clear();
        sampling.clear();
        copies.clear();
    }

    /// Adds the next `tokens` of a sequence, at most [`Step::room`], whose earlier ones are in `table`.
    /// With `new_block`, they go to blocks of their own, so that the sequence may share all it has so
    /// far with others. Returns the last row, or `None` if the KV cache is full, which a reservation
    /// rules out.
    pub fn add_tokens(
        &mut self,
        table: &mut BlockTable,
        tokens: &[u32],
        encoder_states: &BlockTable,
        new_block: bool,
    ) -> Option<u32> {
        let start = table.tokens();
        for (index, &token) in tokens.iter().enumerate() {
            let slot = self.blocks.append_slot_in(table, new_block && index == 0)?;
            self.rows.copies.extend(slot.copy);
            self.rows.input.push(token, (start + index) as u32, slot.slot);
        }
        Some(self.rows.attend(tokens.len(), table, encoder_states))
    }

    /// Adds the token of a sequence that the last launched step sampled as its result `from`, see
    /// [`Step::add_tokens`].
    pub fn add_sampled(
        &mut self,
        table: &mut BlockTable,
        from: usize,
        encoder_states: &BlockTable,
    ) -> Option<u32> {
        let position = table.tokens() as u32;
        let slot = self.blocks.append_slot(table)?;
        self.rows.copies.extend(slot.copy);
        self.rows.input.push_sampled(from as u32, position, slot.slot);
        Some(self.rows.attend(1, table, encoder_states))
    }

    /// Samples the token after `row`; the index of its result. At most [`Step::sample_room`] times.
    pub fn request_sample(&mut self, row: u32, request: SamplingRequest<'_>) -> usize {
        let sampling = &mut self.rows.sampling;
        let mut list = |tokens: &[u32]| {
            let first = sampling.tokens.len() as u32;
            sampling.tokens.extend_from_slice(tokens);
            (first, tokens.len() as u32)
        };
        let (first_banned, banned) = list(request.banned);
        let method = match request.method {
            RequestedMethod::Method(method) => method,
            RequestedMethod::Choices { tokens: list_of, count } => {
                let (first, tokens) = list(list_of);
                SamplingMethod::Choices { first, tokens, count }
            }
        };
        let first_mask = sampling.masks.len() as u32;
        sampling.masks.extend_from_slice(request.mask);
        let mask_words = request.mask.len() as u32;
        sampling.rows.push(RowSampling { method, first_banned, banned, first_mask, mask_words });
        self.rows.sampled_rows.push(row);
        self.rows.sampled_rows.len() - 1
    }

    /// Launches the step: what it samples, if anything, can be read, and the next step that is launched may go on with
    /// it. Whatever is launched later finds the step's keys and values.
    pub fn launch(
        &mut self,
        backend: &mut B,
        stack: &Stack<B>,
        head: &LmHead<B>,
    ) -> Result<Option<B::Sampled>, DeviceError> {
        self.forward(backend, stack)?;
        if self.rows.sampled_rows.is_empty() {
            return Ok(None);
        }
        let (rows, tokens) = (stack.selected(&self.work), Some(&mut self.tokens));
        head.sample(backend, rows, &self.rows.sampling, tokens).map(Some)
    }

    /// Computes the step. What an earlier one sampled stays there for the next that is launched.
    pub fn run(
        &mut self,
        backend: &mut B,
        stack: &Stack<B>,
        head: &LmHead<B>,
    ) -> Result<&SamplerOutput, DeviceError> {
        self.output.clear();
        self.forward(backend, stack)?;
        if !self.rows.sampled_rows.is_empty() {
            let rows = stack.selected(&self.work);
            let sampled = head.sample(backend, rows, &self.rows.sampling, None)?;
            backend.read_sampled(sampled, &mut self.output)?;
        }
        Ok(&self.output)
    }

    /// The rows that are to be sampled lie in the workspace then.
    fn forward(&mut self, backend: &mut B, stack: &Stack<B>) -> Result<(), DeviceError> {
        let Rows { input, metadata, cross_metadata, sampled_rows, copies, .. } = &self.rows;
        if input.tokens.is_empty() {
            return Ok(());
        }
        if !copies.is_empty() {
            backend.copy_blocks(&mut self.cache, copies)?;
        }
        backend.upload_input(input, Some(&self.tokens), &mut self.input)?;
        backend.upload_metadata(metadata, &mut self.metadata)?;
        let crosses = stack.blocks.iter().any(|block| block.cross.is_some());
        if crosses {
            backend.upload_metadata(cross_metadata, &mut self.cross_metadata)?;
        }
        let cross_metadata = crosses.then_some(&self.cross_metadata);
        let work = &mut self.work;
        stack.forward(
            backend,
            &self.input,
            &self.metadata,
            &mut self.cache,
            cross_metadata,
            RequestedRows::Some { rows: sampled_rows, of: input.tokens.len() },
            work,
        )?;
        if sampled_rows.is_empty() { Ok(()) } else { stack.finish(backend, work) }
    }

    /// Computes the step and normalises the rows `selected`, in this order; they lie in the workspace.
    /// `None` where there are none.
    pub fn run_selected(
        &mut self,
        backend: &mut B,
        stack: &Stack<B>,
        selected: &[u32],
    ) -> Result<Option<&B::Tensor>, DeviceError> {
        let Rows { input, metadata, .. } = &self.rows;
        backend.upload_input(input, None, &mut self.input)?;
        backend.upload_metadata(metadata, &mut self.metadata)?;
        let (cache, work) = (&mut self.cache, &mut self.work);
        let requested = RequestedRows::Some { rows: selected, of: input.tokens.len() };
        stack.forward(backend, &self.input, &self.metadata, cache, None, requested, work)?;
        if selected.is_empty() {
            return Ok(None);
        }
        stack.finish(backend, work)?;
        Ok(Some(stack.selected(work)))
    }

    /// Computes the step through the first `depth` blocks; all its rows lie in the workspace, see [`Stack::states`].
    pub fn run_all(
        &mut self,
        depth: usize,
        backend: &mut B,
        stack: &Stack<B>,
    ) -> Result<(&B::Tensor, &B::Metadata), DeviceError> {
        let Rows { input, metadata, .. } = &self.rows;
        backend.upload_input(input, None, &mut self.input)?;
        backend.upload_metadata(metadata, &mut self.metadata)?;
        let Self { input, metadata, cache, work, .. } = self;
        stack.forward_through(
            depth,
            backend,
            input,
            metadata,
            cache,
            None,
            RequestedRows::All,
            work,
        )?;
        Ok((stack.states(depth, backend, work)?, metadata))
    }
}

impl Rows {
    /// The last `count` rows read what is in `table`, and `encoder_states`. Returns the last of them.
    fn attend(&mut self, count: usize, table: &BlockTable, encoder_states: &BlockTable) -> u32 {
        self.metadata.push(count, table.refs.iter().copied());
        self.cross_metadata.push(count, encoder_states.refs.iter().copied());
        self.input.tokens.len() as u32 - 1
    }
}

/// How the next token of a row is to be sampled.
pub struct SamplingRequest<'a> {
    pub method: RequestedMethod<'a>,
    /// Tokens that may not be chosen.
    pub banned: &'a [u32],
    /// Those that may, a bit for each; all if it is empty.
    pub mask: &'a [u32],
}

/// A sampling method with the tokens that it may choose from.
pub enum RequestedMethod<'a> {
    /// Any but [`SamplingMethod::Choices`], whose tokens are given here.
    Method(SamplingMethod),
    /// The likeliest `count` of some tokens.
    Choices {
        /// The tokens.
        tokens: &'a [u32],
        count: u32,
    },
}
