//! The kinds of request: what is refused, what is sent, and what the response means. No I/O.

pub mod call;
pub mod chat;
pub mod completions;
pub mod echo;
pub mod embed;
pub mod generate;
pub mod score;
