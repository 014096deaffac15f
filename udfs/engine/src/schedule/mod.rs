//! Offline work on one model: a queue for all callers, workers that take from it whatever fits.

mod blocks;
mod counters;
mod encode;
mod forest;
mod group;
mod job;
mod kept;
mod limits;
mod pace;
mod queue;
mod room;
mod score;
mod sequence;
mod step;
mod tree;
mod vectors;
mod words;
mod worker;

pub use counters::{Counters, Counts};
pub use job::{Among, Cancel, GenerateWork, Job, Reply, ScoreWork, VectorWork};
pub use limits::{Least, Limits, Short};
pub use queue::Queue;
pub use room::Room;
pub use words::Words;
pub use worker::{Shared, Worker};

use crate::request::RequestError;

fn not_a_number() -> RequestError {
    RequestError::Failed(
        "the model computed NaN: its weights are damaged, or overflow in this precision".to_owned(),
    )
}
