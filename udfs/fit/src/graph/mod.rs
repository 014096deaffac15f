//! The graph of a step: operations, their derivatives, losses over vectors, threads.

pub mod gradients;
pub mod math;
pub mod network;
pub mod ops;
pub mod pairs;
pub mod tape;
