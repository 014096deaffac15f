//! SQL as text: parsed, its tables and words with their places, its form without cosmetics.
//! Knows grammar only; what names mean is decided above.

mod parse;
mod words;

pub use parse::{Query, SqlError, SqlErrorKind, TableName, parse};
pub use words::{find_word, normalized, offset};
