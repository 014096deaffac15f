//! SQL as text: parsed, its tables and words with their places, its form without cosmetics.
//! Knows grammar only; what names mean is decided above.

mod bounded;
mod casts;
mod columns;
mod distinct;
mod fetch;
mod limits;
mod obeyed;
mod parse;
mod patterns;
mod rewriting;
mod row_values;
mod set_arms;
mod stars;
mod using;
mod windows;
mod words;

pub use casts::cast_of;
pub use columns::output_place;
pub use obeyed::{Called, Unobeyed, unobeyed};
pub use parse::{Query, SqlError, SqlErrorKind, TableName, lower_first, parse, parse_expression};
pub use stars::replaced_apart;
pub use words::{find_only, find_word, normalized, offset};
