//! Arguments that several functions have, and how their results are documented.

use crate::definition::{Argument, Kind};

/// The model, always first.
pub(super) const MODEL: Argument = Argument::required(
    "model",
    Kind::Model,
    "Name of a model of the pipeline, a constant. The `echo` of the example repeats what it reads.",
);

/// Options of functions that write text, always last.
pub(super) const GENERATION_OPTIONS: Argument = Argument::optional(
    "options",
    Kind::Options,
    "A struct or a JSON object as text: `max_tokens` (default 128), `min_tokens` (0), `temperature` \
     (0: the likeliest token), `top_k`, `top_p`, `seed` (0), `samples`, `num_beams`, `num_return_sequences`, \
     `length_penalty` (1), `early_stopping` (false), `stop` (list), `prefix`, `choices` (list), \
     `truncate`, `truncation_side` ('right' or 'left'), `on_error` ('fail' or 'capture'), `replay` \
     ('first' or 'only').",
);

/// Options of functions that read one text and write none.
pub(super) const READING_OPTIONS: Argument = Argument::optional(
    "options",
    Kind::Options,
    "A struct or a JSON object as text: `truncate`, `truncation_side` ('right' or 'left'), `on_error` \
     ('fail' or 'capture'), `replay` ('first' or 'only').",
);
