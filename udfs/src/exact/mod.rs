//! What the query engine computes otherwise than SQL says, computed as SQL says: whole numbers that do not wrap, casts
//! and memberships that no rule of the optimizer takes for something else. Queries do not name these functions (but for
//! `sum`); they are put where the engine's own would stand.

mod arithmetic;
mod opaque;
mod sum;

pub use arithmetic::{Operation, Overflow, checked, with_row};
pub use opaque::{apart, named_cast, try_cast};
pub use sum::sum;
