//! Two runs side by side: what they were made of, which numbers differ and by how much more than chance, which
//! rows changed; and what a gate finds in them.

pub mod gated;
pub mod measured;
pub mod metrics;
pub mod pair;
pub mod questions;
pub mod rows;
pub mod runs;
pub mod swap;
pub mod vary;
