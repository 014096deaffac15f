//! Whole fits of tiny models, and what the engine makes of them.

mod answers;
mod bytes;
mod dev;
mod made;
mod refused;
