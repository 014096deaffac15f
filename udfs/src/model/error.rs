//! Why a row has no answer, and why a query has no result.

use datafusion::common::DataFusionError;
use proofmill_engine::request::{Generate, Message, Prompt, Request, RequestError};
use proofmill_settings::options::OptionError;

use super::canonical::{Key, hex};
use super::language_model::{AskError, OpenError};
use super::ledger::LedgerError;

/// The kind of a row's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// More tokens than the model can hold.
    TooLong,
    /// The row is no request, or none that makes sense to the model.
    Invalid,
    /// The model gave no usable answer.
    Failed,
    /// The answer was no longer needed.
    Cancelled,
    /// The model could not answer now, after all that its client tried; another time it may.
    Transient,
    /// The request was not sent: too many others had failed.
    Unasked,
}

/// All of them.
const CLASSES: [Class; 6] = [
    Class::TooLong,
    Class::Invalid,
    Class::Failed,
    Class::Cancelled,
    Class::Transient,
    Class::Unasked,
];

impl Class {
    /// Its name in the column `error`.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Transient => "transient",
            Self::Unasked => "unasked",
        }
    }

    /// What to do about it.
    fn help(self) -> &'static str {
        match self {
            Self::TooLong | Self::Invalid => "correct the row",
            Self::Failed | Self::Cancelled | Self::Transient | Self::Unasked => "run again",
        }
    }

    /// Whether the same request may well have an answer another time, although the row, the model and
    /// its settings stay as they are.
    pub fn may_pass(self) -> bool {
        match self {
            Self::TooLong | Self::Invalid | Self::Failed => false,
            Self::Cancelled | Self::Transient | Self::Unasked => true,
        }
    }

    /// The class of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        CLASSES.into_iter().find(|class| class.name() == name)
    }
}

/// Why an options argument is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Not a JSON object.
    #[error("argument `options` is no JSON object: {0}")]
    Json(String),
    #[error("option `{0}` stands twice")]
    Repeated(String),
    /// A key that the function does not have.
    #[error("option `{key}` is unknown")]
    Unknown { key: String, hint: String },
    /// A value that the key cannot have.
    #[error("option `{key}` is {value}")]
    Value { key: String, value: String, expected: String },
    /// A value out of range, or one that does not go with the others.
    #[error(transparent)]
    Invalid(#[from] OptionError),
    /// A call that returns one answer per row asks for several.
    #[error("the options of a row ask for {0} answers, and the call returns one per row")]
    Several(u32),
    /// A row names what changes the result of the call, which is known without it.
    #[error("the options of a row name `{0}`, and the result has no field for it")]
    NoField(&'static str),
    /// Several answers are requested in a text that is known only when the call is made.
    #[error(
        "argument `options` names `samples` or `num_return_sequences` in a text that is put together"
    )]
    Unforeseen,
}

impl OptionsError {
    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Json(_) => None,
            Self::Repeated(_) => Some("keep one".to_owned()),
            Self::Unknown { hint, .. } => Some(hint.clone()),
            Self::Value { expected, .. } => Some(format!("expected {expected}")),
            Self::Invalid(error) => error.help.clone(),
            Self::NoField(_) => Some("write the options as a struct, or as one constant text".to_owned()),
            Self::Several(_) => Some(
                "write options with `samples` or `num_return_sequences` as a constant text or as a struct"
                    .to_owned(),
            ),
            Self::Unforeseen => Some("write one constant text, or a struct".to_owned()),
        }
    }

    /// The error and what to do about it, where there is one line for both.
    pub fn in_one_line(&self) -> String {
        match self.help() {
            Some(help) => format!("{self}; {help}"),
            None => self.to_string(),
        }
    }
}

/// Why a call cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such model.
    #[error("`{function}`: there is no model `{model}`; {help}")]
    UnknownModel { function: &'static str, model: String, help: String },
    /// The arguments are not what the function takes.
    #[error("{problem}{}", and(.help))]
    Arguments { function: &'static str, problem: String, help: Option<String> },
    /// It stands where no model can be called.
    #[error("`{function}` stands {place}, where no model can be asked; {help}")]
    Placement { function: String, place: String, help: &'static str },
}

fn and(help: &Option<String>) -> String {
    help.as_ref().map(|help| format!("; {help}")).unwrap_or_default()
}

impl CallError {
    /// Options that the call cannot have.
    pub(super) fn options(function: &'static str, error: &OptionsError) -> Self {
        let problem = format!("`{function}`: {error}");
        Self::Arguments { function, problem, help: error.help() }
    }
}

impl From<CallError> for DataFusionError {
    fn from(error: CallError) -> Self {
        Self::External(Box::new(error))
    }
}

/// Why a row has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: Class,
    pub message: String,
}

impl Failure {
    /// The row is no request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { class: Class::Invalid, message: message.into() }
    }

    /// The request was not sent to the model.
    pub(super) fn unasked() -> Self {
        let message = "it was not asked: too much had failed by then".to_owned();
        Self { class: Class::Unasked, message }
    }

    /// The model gave no usable answer.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { class: Class::Failed, message: message.into() }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        let class = match error {
            RequestError::TooLong { .. } => Class::TooLong,
            RequestError::Invalid(_) => Class::Invalid,
            RequestError::Failed(_) => Class::Failed,
            RequestError::Cancelled => Class::Cancelled,
        };
        Self { class, message: error.to_string() }
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub(super) enum Unanswered {
    Row(Failure),
    /// No request of the model has one.
    Model(OpenError),
    /// Nothing more may be spent on the model.
    Spent(OpenError),
}

impl From<AskError> for Unanswered {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Row(error) => Self::Row(error.into()),
            AskError::Passing(error) => {
                Self::Row(Failure { class: Class::Transient, message: error.to_string() })
            }
            AskError::Model(cause) => Self::Model(cause),
            AskError::Spent(cause) => Self::Spent(cause),
        }
    }
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Self {
        Self::Row(failure)
    }
}

/// Why a query that asks a model has no result.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model cannot be used at all.
    #[error("`{function}`: model `{model}` cannot be used: {cause}")]
    Open { function: &'static str, model: String, cause: OpenError },
    /// What may be spent on the model is spent. What was under way then is recorded.
    #[error("`{function}`: model `{model}`: {cause}")]
    Spent { function: &'static str, model: String, cause: OpenError },
    /// The ledger cannot be used. Answers that cannot be recorded are not given out.
    #[error("`{function}`: model `{model}`: the ledger of answers cannot be used: {cause}")]
    Ledger { function: &'static str, model: String, cause: LedgerError },
    /// A row failed, and failures were not to be captured.
    #[error(
        "`{function}`: model `{model}`: {}{}; {}, or set `on_error` to 'capture' to get failed rows \
         with their errors",
        request(.label),
        .failure.message,
        .failure.class.help()
    )]
    Row {
        function: &'static str,
        model: String,
        /// The end of the request and the beginning of its digest, if the row got that far.
        label: Option<String>,
        failure: Failure,
    },
}

fn request(label: &Option<String>) -> String {
    label.as_ref().map(|label| format!("request {label}: ")).unwrap_or_default()
}

/// Characters of a request that a message shows.
const SHOWN_CHARS: usize = 60;

/// How a message names a request: by its end, as prompts begin with what they share, and by the beginning of
/// the digest that it is recorded under.
pub(super) fn label(request: &Request, key: &Key) -> String {
    let text = match request {
        Request::Generate(Generate { prompt: Prompt::Text(text), .. }) => text,
        Request::Generate(Generate { prompt: Prompt::Passages(passages), .. }) => {
            passages.last().map_or("", String::as_str)
        }
        Request::Generate(Generate { prompt: Prompt::Messages(messages), .. }) => last(messages),
        Request::Score(score) if score.messages.is_empty() => &score.prompt,
        Request::Score(score) => last(&score.messages),
        Request::Embed(embed) => &embed.text,
        Request::Hidden(hidden) => &hidden.text,
        Request::Classify(classify) => classify.pair.as_ref().unwrap_or(&classify.text),
    };
    let cut = text.chars().count().saturating_sub(SHOWN_CHARS);
    let end: String = text.chars().skip(cut).collect();
    let before = if cut > 0 { "…" } else { "" };
    format!("`{before}{end}` ({})", &hex(key)[..12])
}

fn last(messages: &[Message]) -> &str {
    messages.last().map_or("", |message| &message.content)
}
