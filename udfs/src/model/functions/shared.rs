//! Arguments that several functions have, and how their results are documented.

use proofmill_engine::request::{Message, Prompt};

use crate::definition::{Argument, Kind};

/// The model, always first.
pub(super) const MODEL: Argument = Argument::required(
    "model",
    Kind::Model,
    "Name of a model of the pipeline, a constant. The `echo` of the example repeats what it reads.",
);

/// What the model reads before it writes or scores.
pub(super) const PROMPT: Argument = Argument::required(
    "prompt",
    Kind::Prompt,
    "The text that the model reads; or the turns of a chat, a list of `struct(role, content)`.",
);

/// What a score comes after: a text, or messages beside an empty one.
pub(super) fn before(prompt: Prompt) -> (String, Vec<Message>) {
    match prompt {
        Prompt::Text(text) => (text, Vec::new()),
        Prompt::Messages(messages) => (String::new(), messages),
        // No call can pass them here.
        Prompt::Passages(passages) => (passages.concat(), Vec::new()),
    }
}

/// Options of functions that write text, always last.
pub(super) const GENERATION_OPTIONS: Argument = Argument::optional(
    "options",
    Kind::Options,
    "A struct or a JSON object as text: `max_tokens` (default 128), `min_tokens` (0), `temperature` \
     (0: the likeliest token), `top_k`, `top_p`, `seed` (0), `samples`, `num_beams`, `num_return_sequences`, \
     `length_penalty` (1), `early_stopping` (false), `stop` (list), `prefix`, `choices` (list), \
     `logprobs` (false), `truncate`, `truncation_side` ('right' or 'left'), `response_format` (an object), \
     `on_error` ('fail' or 'capture'), `replay` ('first' or 'only').",
);

/// Options of functions that read one text and write none.
pub(super) const READING_OPTIONS: Argument = Argument::optional(
    "options",
    Kind::Options,
    "A struct or a JSON object as text: `truncate`, `truncation_side` ('right' or 'left'), `on_error` \
     ('fail' or 'capture'), `replay` ('first' or 'only').",
);
