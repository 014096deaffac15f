//! Decoding: beam search, stop texts and guided choice, as state machines over token ids.

pub mod beam;
pub mod stop;
pub mod trie;
