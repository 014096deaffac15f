//! Steps of the graph, forward and backward, in few passes over memory and always in the same order.
//! Numbers are f32 on the CPU. Only products are candle's.

mod attention;
mod dropout;
mod loss;
mod mlp;
mod norm;
mod slice;

pub use attention::{Attend, Heads};
pub use dropout::Dropout;
pub use loss::Loss;
pub use mlp::MlpShape;
pub use norm::Norm;
pub use slice::{Add, AddRows, with_numbers};
