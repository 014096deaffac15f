//! What a call gives, as far as its options tell when it is planned.

use datafusion::arrow::datatypes::DataType;

/// What the options of a call, as far as they are known when it is planned, make of the type of its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// A list of answers instead of one.
    pub list: bool,
    /// Answers have the log-probability of each of their tokens.
    pub logprobs: bool,
    /// And of each token of the prompt.
    pub prompt_logprobs: bool,
    /// A vector for each token instead of one.
    pub all_tokens: bool,
}

impl Shape {
    /// Of a call whose options have these keys.
    pub fn of_keys<'k>(keys: impl Iterator<Item = &'k str>) -> Self {
        let mut shape = Self::default();
        for key in keys {
            match key {
                "samples" | "num_return_sequences" => shape.list = true,
                "logprobs" => shape.logprobs = true,
                "prompt_logprobs" => shape.prompt_logprobs = true,
                "all_tokens" => shape.all_tokens = true,
                _ => {}
            }
        }
        shape
    }

    /// Of a result of this type.
    pub fn of_type(result: &DataType) -> Self {
        let (list, answer) = match result {
            DataType::List(item) => (true, item.data_type()),
            other => (false, other),
        };
        let DataType::Struct(fields) = answer else { return Self { list, ..Self::default() } };
        let has = |name: &str| fields.iter().any(|field| field.name() == name);
        Self {
            list,
            logprobs: has("logprobs"),
            prompt_logprobs: has("prompt_logprobs"),
            all_tokens: has("vectors"),
        }
    }

    /// An option that has a field of its own, which a result of this type has not.
    pub fn lacks(self, requested: Self) -> Option<&'static str> {
        [
            (requested.logprobs && !self.logprobs, "logprobs"),
            (requested.prompt_logprobs && !self.prompt_logprobs, "prompt_logprobs"),
            (requested.all_tokens && !self.all_tokens, "all_tokens"),
        ]
        .into_iter()
        .find_map(|(lacks, name)| lacks.then_some(name))
    }
}
