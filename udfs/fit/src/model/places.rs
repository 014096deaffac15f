//! Where a network finds its parameters, and the sizes of its parts. One description serves all families: they differ
//! in which parts they have.

use proofmill_engine::architecture::Buckets;

use crate::graph::ops::{Heads, MlpShape};

/// A whole network; numbers are places in a [`Plan`](crate::model::weights::Plan). A head makes logits of a decoder's rows.
#[derive(Clone, Debug)]
pub enum Places {
    /// Gives vectors.
    Encoder(Stack),
    EncoderDecoder {
        encoder: Stack,
        decoder: Stack,
        head: Head,
    },
    Decoder {
        decoder: Stack,
        head: Head,
    },
}

impl Places {
    /// What reads the texts of a pair first.
    pub fn first(&self) -> &Stack {
        match self {
            Self::Encoder(stack)
            | Self::EncoderDecoder { encoder: stack, .. }
            | Self::Decoder { decoder: stack, .. } => stack,
        }
    }

    /// Behind an encoder.
    pub fn second(&self) -> Option<&Stack> {
        match self {
            Self::EncoderDecoder { decoder, .. } => Some(decoder),
            Self::Encoder(_) | Self::Decoder { .. } => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Stack {
    /// `[vocabulary, width]`
    pub tokens: usize,
    /// Added to the embedding (BERT, OPT).
    pub learned: Option<Learned>,
    /// After the embedding (BERT).
    pub embedding_norm: Option<NormPlace>,
    /// A table `[buckets, heads]` for distances (T5).
    pub relative: Option<(usize, Buckets)>,
    pub blocks: Vec<Block>,
    /// After the last block (T5, OPT).
    pub norm: Option<NormPlace>,
    /// Whether norms stand before each part, or after its sum.
    pub norm_first: bool,
    /// Whether a token sees none that comes later.
    pub causal: bool,
    pub drops: Drops,
    pub heads: Heads,
    /// Multiplies the scores of attention.
    pub scale: f32,
    pub mlp: MlpShape,
}

/// Tables that are added to the embedding.
#[derive(Clone, Copy, Debug)]
pub struct Learned {
    /// `[offset + positions, width]`
    pub positions: usize,
    /// The row of position 0.
    pub offset: usize,
    /// `[types, width]`, of which each token has type 0.
    pub types: Option<usize>,
}

/// Where dropout acts beside the probabilities of attention and the result of each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// After the embedding, inside feed-forward parts, and after the last norm.
    T5,
    /// After the embedding.
    Bert,
    /// Nowhere.
    Opt,
}

#[derive(Clone, Debug)]
pub struct Block {
    pub attention: Attention,
    pub cross: Option<Cross>,
    pub mlp: Mlp,
}

#[derive(Clone, Debug)]
pub struct Attention {
    pub norm: NormPlace,
    pub qkv: Linear,
    pub out: Linear,
}

#[derive(Clone, Debug)]
pub struct Cross {
    pub norm: NormPlace,
    pub q: Linear,
    pub kv: Linear,
    pub out: Linear,
}

#[derive(Clone, Debug)]
pub struct Mlp {
    pub norm: NormPlace,
    pub up: Linear,
    pub down: Linear,
}

/// A matrix `[inputs, outputs]` and its bias.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    pub matrix: usize,
    pub bias: Option<usize>,
}

/// A norm by the mean square, or with a bias one by mean and variance.
#[derive(Clone, Copy, Debug)]
pub struct NormPlace {
    pub weight: usize,
    pub bias: Option<usize>,
    pub eps: f32,
}

/// From rows to logits.
#[derive(Clone, Debug)]
pub struct Head {
    /// Before the matrix (BERT).
    pub transform: Option<Transform>,
    /// Multiplies the logits (T5).
    pub scale: f32,
    /// `[vocabulary, width]`
    pub matrix: usize,
    pub bias: Option<usize>,
}

/// `norm(activation(linear x))`
#[derive(Clone, Debug)]
pub struct Transform {
    pub linear: Linear,
    pub activation: MlpShape,
    pub norm: NormPlace,
}
