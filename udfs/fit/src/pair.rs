//! One example.

/// A text that is read and the text that should be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub input: String,
    pub output: String,
    /// How much it counts, above 0. A token of a pair of weight 2 counts like two tokens.
    pub weight: f32,
}

impl Pair {
    /// A pair of weight 1.
    pub fn new(input: impl Into<String>, output: impl Into<String>) -> Self {
        Self { input: input.into(), output: output.into(), weight: 1.0 }
    }
}
