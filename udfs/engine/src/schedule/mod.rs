//! The scheduler: a queue for all callers of a model, and workers that batch whatever fits (continuous
//! batching over a paged KV cache).

mod batch_size;
mod block_pool;
mod caches;
mod counters;
mod detokenizer;
mod encode;
mod encoder_cache;
mod job;
mod limits;
mod prefix_cache;
mod prefix_tree;
mod queue;
mod score;
mod scorer;
mod scoring_tree;
mod sequence;
mod sequence_group;
mod step;
mod vectors;
mod worker;
mod workspace;

pub use counters::{Counters, Counts};
pub use detokenizer::Detokenizer;
pub use job::{Cancel, Choices, GenerateWork, Job, Reply, ScoreWork, VectorOutput, VectorWork};
pub use limits::{Limits, MinLimits, Shortage};
pub use queue::Queue;
pub use worker::{Shared, Worker};
pub use workspace::WorkerWorkspace;

use crate::request::RequestError;

fn not_a_number() -> RequestError {
    RequestError::Failed(
        "the model computed NaN: its weights are damaged, or overflow in this precision".to_owned(),
    )
}
