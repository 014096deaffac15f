//! Gates: whether a run may take the place of another.
//!
//! Reading order: `evidence` (what is found in two runs), `judge` (what follows from it), `verdict` (both as one object, which
//! anybody derives again). Nothing here reads a store. Specification: `docs/specs/gates.md`.

pub mod evidence;
pub mod judge;
pub mod verdict;

#[cfg(test)]
mod tests;
