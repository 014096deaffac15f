//! Which tokens to take and when to end: state machines over token ids, log-probabilities and text.

pub mod beam;
pub mod stop;
pub mod trie;
