//! Requests and answers, the same for models on this machine and behind an endpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The input of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    Text(String),
    /// The turns of a chat. A model on this machine reads them through its chat template.
    Messages(Vec<Message>),
    /// Several texts, each encoded alone and read together by the decoder (FiD). Encoder-decoder
    /// models only.
    Passages(Vec<String>),
}

/// One turn of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `system`, `user`, `assistant`, or whatever else the model knows.
    pub role: String,
    pub content: String,
}

/// What happens to a prompt that has more tokens than allowed. Without it such a row is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncate {
    /// Most tokens, special ones included.
    pub tokens: u32,
    pub keep: Keep,
}

/// An end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The beginning.
    Start,
    /// The end.
    End,
}

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Always the likeliest; ties go to the smaller token id.
    Greedy,
    /// An exact sample by Gumbel noise that depends on seed, request, sample and step alone.
    Sample {
        /// Divides the logits; above 0.
        temperature: f32,
        /// Only the likeliest so many; 0 is all.
        top_k: u32,
        /// Only the likeliest whose probabilities reach this sum; 1 is all.
        top_p: f32,
        seed: u64,
        /// Answers per request, distinguished by their number; at least 1.
        samples: u32,
    },
    /// Beam search as transformers defines it (scores divided by length^penalty).
    Beam {
        /// Hypotheses kept per step; at least 2.
        beams: u32,
        /// Answers returned, best first; at most `beams`.
        answers: u32,
        /// Exponent of the length in the score.
        length_penalty: f32,
        /// Ends as soon as `beams` hypotheses are complete.
        early_stopping: bool,
    },
}

impl Strategy {
    /// Most answers that it gives.
    pub fn answers(&self) -> u32 {
        match *self {
            Self::Greedy => 1,
            Self::Sample { samples, .. } => samples,
            Self::Beam { answers, .. } => answers,
        }
    }
}

/// A generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generate {
    pub prompt: Prompt,
    /// What happens to a prompt (each passage) that is too long.
    pub truncate: Option<Truncate>,
    /// Text that the answer is made to begin with; it is part of the answer.
    pub prefix: String,
    /// How tokens are chosen.
    pub strategy: Strategy,
    /// Most new tokens, the forced prefix not counted.
    pub max_tokens: u32,
    /// No end token before so many new tokens; a stop text ends the answer at once.
    pub min_tokens: u32,
    /// The answer ends before the first of these texts.
    pub stop: Vec<String>,
    /// If not empty, the answer is one of these texts, by constrained decoding. Keys of stored answers
    /// know it by its first name.
    #[serde(rename = "among")]
    pub choices: Vec<String>,
    /// The form that the answer is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Whether the answer tells the log-probability of each new token.
    #[serde(default, skip_serializing_if = "is_false")]
    pub logprobs: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The form that an answer is to have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenFormat", into = "WrittenFormat")]
pub enum ResponseFormat {
    /// Some JSON object.
    JsonObject,
    /// JSON that a schema describes.
    JsonSchema(NamedSchema),
    /// Text that a regular expression describes as a whole; models on this machine only.
    Regex(String),
}

/// A form as OpenAI's protocol writes it; regular expressions are ours.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFormat {
    #[serde(rename = "type")]
    kind: FormatType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json_schema: Option<NamedSchema>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    regex: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FormatType {
    JsonObject,
    JsonSchema,
    Regex,
}

impl TryFrom<WrittenFormat> for ResponseFormat {
    type Error = &'static str;

    fn try_from(written: WrittenFormat) -> Result<Self, &'static str> {
        match (written.kind, written.json_schema, written.regex) {
            (FormatType::JsonObject, None, None) => Ok(Self::JsonObject),
            (FormatType::JsonSchema, Some(schema), None) => Ok(Self::JsonSchema(schema)),
            (FormatType::Regex, None, Some(regex)) => Ok(Self::Regex(regex)),
            (FormatType::JsonObject, ..) => Err("`json_object` with nothing beside it"),
            (FormatType::JsonSchema, ..) => Err("`json_schema` with `json_schema` beside it"),
            (FormatType::Regex, ..) => Err("`regex` with `regex` beside it"),
        }
    }
}

impl From<ResponseFormat> for WrittenFormat {
    fn from(format: ResponseFormat) -> Self {
        let (kind, json_schema, regex) = match format {
            ResponseFormat::JsonObject => (FormatType::JsonObject, None, None),
            ResponseFormat::JsonSchema(schema) => (FormatType::JsonSchema, Some(schema), None),
            ResponseFormat::Regex(regex) => (FormatType::Regex, None, Some(regex)),
        };
        Self { kind, json_schema, regex }
    }
}

/// A JSON Schema with the name that an endpoint shows to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedSchema {
    pub name: String,
    pub schema: serde_json::Value,
    /// Whether the endpoint must hold the model to it; the endpoint's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

impl ResponseFormat {
    /// What keeps a model from being held to it, if anything plain does.
    pub fn problem(&self) -> Option<String> {
        let NamedSchema { name, schema, .. } = match self {
            Self::JsonObject => return None,
            Self::Regex(regex) if regex.is_empty() => {
                return Some("its regular expression is empty".to_owned());
            }
            Self::Regex(_) => return None,
            Self::JsonSchema(schema) => schema,
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=64).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Some("its name needs 1 to 64 letters, digits, `_` or `-`".to_owned());
        }
        (!schema.is_object()).then(|| "its schema is no JSON object".to_owned())
    }
}

/// The log-probability of continuations of one prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// Empty beside messages.
    pub prompt: String,
    /// The turns of a chat before the continuations, instead of a prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// What happens to a prompt that is too long.
    pub truncate: Option<Truncate>,
    pub continuations: Vec<String>,
    /// Whether the end of the text is part of each continuation. Keys of stored answers know it by its
    /// first name.
    #[serde(rename = "with_end")]
    pub include_eos: bool,
    /// Whether the answer tells the log-probability of each token of the continuations.
    #[serde(default, skip_serializing_if = "is_false")]
    pub logprobs: bool,
    /// Whether it tells that of each token of the prompt, beside the first continuation; of decoders only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prompt_logprobs: bool,
}

/// The vector of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embed {
    pub text: String,
    /// What happens to a text that is too long.
    pub truncate: Option<Truncate>,
}

/// The hidden states of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hidden {
    pub text: String,
    /// What happens to a text that is too long.
    pub truncate: Option<Truncate>,
    /// As transformers numbers `hidden_states`: 0 is the embedding, 1 the first block, and from the end -1 the last,
    /// after the final norm. An encoder-decoder model's are those of its encoder.
    #[serde(default = "last_layer", skip_serializing_if = "is_last_layer")]
    pub layer: i32,
    #[serde(default, skip_serializing_if = "is_last_row")]
    pub rows: HiddenRows,
}

/// Which hidden states of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HiddenRows {
    /// That of the last token.
    #[default]
    Last,
    /// That of the first token.
    First,
    /// The mean of all, special tokens included.
    Mean,
    /// Those of all tokens, special ones included.
    All,
}

fn last_layer() -> i32 {
    -1
}

fn is_last_layer(layer: &i32) -> bool {
    *layer == last_layer()
}

fn is_last_row(rows: &HiddenRows) -> bool {
    *rows == HiddenRows::Last
}

/// The class of a text, or of a pair of texts, by a model that has a head for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classify {
    pub text: String,
    /// What stands beside the text, if anything: a passage beside a question, a premise beside a hypothesis.
    pub pair: Option<String>,
    /// What happens to a text that is too long, and to a pair that is: the longer of the two loses tokens until
    /// both are as long, then both.
    pub truncate: Option<Truncate>,
}

/// A request to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Generate(Generate),
    Score(Score),
    /// The vector of a text, pooled and normalised as the model's folder says.
    Embed(Embed),
    /// Hidden states of a text; of the last token after the final norm, if nothing else is said (PGRA's reranker).
    Hidden(Hidden),
    /// The class of a text or of a pair.
    Classify(Classify),
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model ended it, or the constraint left nothing to add.
    End,
    Stop,
    /// It was cut at the most tokens allowed.
    Length,
}

/// One answer of a generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// The text without special tokens, with the forced prefix, without the stop text.
    pub text: String,
    pub finish: Finish,
    /// Sum of the natural log-probabilities of the new tokens, the end included, forced prefix not
    /// included; under the model's own distribution, before temperature and cuts. None where an
    /// endpoint does not tell.
    pub logprob: Option<f64>,
    /// The score that orders the answers of a beam search.
    pub score: Option<f64>,
    /// New tokens, the end included.
    pub output_tokens: u32,
    /// The new tokens, the end included, if they were requested. Their texts, one after the other,
    /// are the answer's behind its forced prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Vec<TokenLogprob>>,
}

/// A token and how likely it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// Of the model's vocabulary.
    pub id: u32,
    /// What it adds to the text: nothing if it is special, or a part of a character whose last part comes later.
    pub text: String,
    /// Natural, under the model's own distribution; None for a first token, which nothing stands before.
    pub logprob: Option<f32>,
}

/// The score of one continuation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Sum of the natural log-probabilities of its tokens.
    pub logprob: f64,
    pub tokens: u32,
    /// Whether greedy decoding gives the same tokens.
    pub is_greedy: bool,
    /// Its tokens, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Vec<TokenLogprob>>,
    /// The tokens before it, if they were requested; only of the first continuation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<Vec<TokenLogprob>>,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Tokens of the prompt as the model read it (of all passages together).
    pub prompt_tokens: u32,
    /// Whether the prompt was cut.
    pub prompt_truncated: bool,
    pub body: Body,
}

/// The part of an answer that depends on the kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// One per sample, or the best of a beam search, best first. Never empty.
    Generations(Vec<Generation>),
    /// One per continuation, in their order.
    Scores(Vec<Scored>),
    /// f32 of the model's width.
    Vector(Vec<f32>),
    /// One per token.
    Vectors(Vec<Vec<f32>>),
    /// One per class, in the model's order.
    Classes(Vec<ClassScore>),
}

/// What a model says of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassScore {
    /// As the model's folder calls it.
    pub label: String,
    /// The head's output.
    pub logit: f32,
    /// Of all classes together, or of each alone, as the model's folder says; None where the output is a value and
    /// no logit (regression).
    pub probability: Option<f32>,
}

/// Why a request has no answer. A row that fails so becomes an error row; its neighbours go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// More tokens than the model or its cache can hold.
    #[error("{tokens} tokens, and {limit} is the most; shorten the text, or set `truncate`")]
    TooLong {
        /// Tokens the request needs.
        tokens: u32,
        /// Most tokens that fit.
        limit: u32,
    },
    /// The request makes no sense to this model.
    #[error("{0}")]
    Invalid(String),
    /// The model gave no usable answer.
    #[error("{0}")]
    Failed(String),
    /// The caller cancelled it.
    #[error("the request was cancelled")]
    Cancelled,
}

/// Why a device failed, in loading or computing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Not enough free memory.
    #[error("out of device memory: {bytes} more bytes cannot be allocated")]
    OutOfMemory { bytes: usize },
    #[error("the device failed: {0}")]
    Failed(String),
}
