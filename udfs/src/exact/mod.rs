//! What the query engine computes otherwise than SQL says, computed as SQL says: whole numbers that do not wrap, extremes
//! among NaN, frames that move, casts and memberships that no rule of the optimizer takes for something else. Queries do not
//! name these functions (but for `sum`, `min` and `max`); they are put where the engine's own would stand.

mod arithmetic;
mod extremes;
mod opaque;
mod sliding;
mod sum;
mod wrapped;

pub use arithmetic::{Operation, Overflow, checked, with_row};
pub use extremes::extremes;
pub use opaque::{apart, named_cast, try_cast};
pub use sliding::sliding;
pub use sum::sum;
