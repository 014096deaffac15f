//! Stages with their edges: every name resolved, in an order in which they can run. Pure.

pub mod build;
pub mod order;
pub mod select;
pub mod stage;

pub use build::build;
pub use stage::{Graph, Input, Role, Stage};
