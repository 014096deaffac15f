//! Why a row has no answer, and why a query has no result.

use datafusion::common::DataFusionError;
use proofmill_engine::request::{Generate, Message, Prompt, Request, RequestError};

use super::canonical::{Key, hex};
use super::language_model::{AskError, OpenError};
use super::ledger::LedgerError;
use super::options::OptionsError;

/// The kind of a row's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// More tokens than the model can hold.
    TooLong,
    /// The row is no request, or none that makes sense to the model.
    Invalid,
    /// The model gave no usable answer.
    Failed,
    /// Nobody waited for the answer any more.
    Cancelled,
    /// The model could not answer now, after all that its client tried; another time it may.
    Transient,
    /// The model was not asked: so many others had failed that nothing more was.
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

/// Why a call cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such model.
    #[error("`{function}`: there is no model `{model}`; {help}")]
    UnknownModel { function: &'static str, model: String, help: String },
    /// The arguments are not what the function takes.
    #[error("{problem}{}", and(.help))]
    Arguments { function: &'static str, problem: String, help: Option<String> },
    /// It stands where no model can be asked.
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

    /// The model was not asked.
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
        request(.asked),
        .failure.message,
        .failure.class.help()
    )]
    Row {
        function: &'static str,
        model: String,
        /// The end of what was asked and the beginning of its digest, if the row got that far.
        asked: Option<String>,
        failure: Failure,
    },
}

fn request(asked: &Option<String>) -> String {
    asked.as_ref().map(|asked| format!("request {asked}: ")).unwrap_or_default()
}

/// Characters of a request that a message shows.
const SHOWN_CHARS: usize = 60;

/// How a message names a request: by its end, as prompts begin with what they share, and by the beginning of
/// the digest that it is recorded under.
pub(super) fn asked(request: &Request, key: &Key) -> String {
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
