//! The training: the loop, what it optimises, judges, reports and keeps.

pub mod fit;
pub mod judge;
pub mod learning_rate;
pub mod optimizer;
pub mod progress;
pub mod reward;
pub mod state;
pub mod task;
