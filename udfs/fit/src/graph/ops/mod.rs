//! Steps of the graph, forward and backward, in few passes over memory and always in the same order.

mod attention;
mod dropout;
mod layer_norm;
mod loss;
mod mlp;
mod norm;
mod policy;
mod pool;

pub use attention::{Attend, Heads, Saved};
pub use dropout::{Drop, Dropout};
pub use layer_norm::LayerNorm;
pub use loss::Loss;
pub use mlp::{Inner, MlpShape};
pub use norm::Norm;
pub use policy::{Advantage, PolicyLoss};
pub use pool::Pool;
