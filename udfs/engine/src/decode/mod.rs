//! Decoding: beam search, stop texts, guided choice and answers of a form, as state machines over token ids.

pub mod beam;
pub mod grammar;
pub mod stop;
pub mod trie;
