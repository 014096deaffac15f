//! What one batch of judged texts leaves for the next.

use super::blocks::{Blocks, Span};

/// A beginning shorter than this is not worth keeping for the next batch.
const KEPT_TOKENS_MIN: usize = 32;

/// The beginning that all texts of the last batch shared: most often the few-shot examples, which
/// the next batch begins with too.
#[derive(Default)]
pub struct Kept {
    tokens: Vec<u32>,
    span: Span,
}

impl Kept {
    /// Frees its blocks.
    pub fn forget(&mut self, blocks: &mut Blocks) {
        blocks.absolve(self.span.refs.len());
        blocks.release(&mut self.span);
        self.tokens.clear();
    }

    /// What `tokens` begin with, if it is worth it; otherwise everything is forgotten.
    pub fn reuse(&mut self, tokens: &[u32], blocks: &mut Blocks) -> Span {
        let shared = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        if shared < KEPT_TOKENS_MIN {
            self.forget(blocks);
            return Span::default();
        }
        blocks.share_some(&self.span, shared)
    }

    /// Keeps `tokens`, which `span` holds, in the place of what was kept, if they are worth it and
    /// nobody was promised the blocks.
    pub fn keep(&mut self, tokens: &[u32], span: &Span, blocks: &mut Blocks) {
        self.forget(blocks);
        if tokens.len() >= KEPT_TOKENS_MIN && blocks.promise(span.refs.len()) {
            self.span = blocks.share(span);
            self.tokens = tokens.to_vec();
        }
    }
}
