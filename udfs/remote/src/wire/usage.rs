//! Token counts of an answer.

use serde::Deserialize;

/// `usage`. What is missing counts as 0: embeddings have no `completion_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct WireUsage {
    #[serde(default)]
    pub prompt_tokens: u32,
    /// Tokens of all answers together.
    #[serde(default)]
    pub completion_tokens: u32,
}

/// A response that may tell its token counts.
pub trait Counted {
    /// The counts, if they were told.
    fn usage(&self) -> Option<WireUsage>;
}
