//! `POST /embeddings`.

use serde::{Deserialize, Serialize};

use super::usage::{Counted, WireUsage};

/// The body that is sent.
#[derive(Clone, Debug, Serialize)]
pub struct EmbeddingsRequest<'a> {
    pub model: &'a str,
    pub input: &'a str,
}

/// The body that comes back.
#[derive(Clone, Debug, Deserialize)]
pub struct EmbeddingsResponse {
    pub data: Vec<Embedding>,
    pub usage: Option<WireUsage>,
}

/// One vector.
#[derive(Clone, Debug, Deserialize)]
pub struct Embedding {
    pub embedding: Vec<f32>,
}

impl Counted for EmbeddingsResponse {
    fn usage(&self) -> Option<WireUsage> {
        self.usage
    }
}
