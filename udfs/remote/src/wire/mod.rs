//! The JSON of the protocol: as much of it as is sent, and as much as is read. Unknown fields are
//! passed over.

pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod sampling;
pub mod usage;
