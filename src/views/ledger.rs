//! Recorded answers of models, and those that were forgotten.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::report::units::{count, date_and_time, plural};
use crate::views::section::{Grid, Section, View};
use proofmill_base::digest::Digest;
use proofmill_base::secret;
use proofmill_base::styled::printable;
use proofmill_ledger::{Forgotten, ModelAnswers, Scope};

/// Digits of the id of a model, of the digest of its identity.
const ID_DIGITS: usize = 12;

/// What a ledger has.
#[derive(Clone, Debug, Serialize)]
pub struct LedgerView {
    models: Vec<ModelLine>,
    forgotten: Vec<ForgottenLine>,
}

/// The recorded answers of a model.
#[derive(Clone, Debug, Serialize)]
struct ModelLine {
    id: String,
    answers: u64,
    /// By kind of request.
    kinds: BTreeMap<String, u64>,
    first: DateTime<Utc>,
    last: DateTime<Utc>,
    /// Its identity.
    model: String,
}

/// Answers that count no more.
#[derive(Clone, Debug, Serialize)]
struct ForgottenLine {
    at: DateTime<Utc>,
    answers: u64,
    /// Ids of models all of whose answers are meant.
    models: Vec<String>,
    requests: Vec<Digest>,
    author: String,
    reason: String,
    #[serde(skip)]
    what: String,
}

impl LedgerView {
    /// Of the models that answered, and of what was forgotten.
    pub fn of(models: &[ModelAnswers], forgotten: &[Forgotten]) -> Self {
        let models = models.iter().map(|model| ModelLine {
            id: model_id(&model.model),
            answers: model.answers(),
            kinds: model.kinds.clone(),
            first: model.first,
            last: model.last,
            model: secret::covered(&model.model).into_owned(),
        });
        Self {
            models: models.collect(),
            forgotten: forgotten.iter().map(ForgottenLine::from).collect(),
        }
    }
}

/// Answers that were forgotten just now.
#[derive(Clone, Debug, Serialize)]
pub struct ForgotView {
    pub forgotten: u64,
    /// Whose answers they were.
    pub what: String,
}

impl View for ForgotView {
    fn sections(&self) -> Vec<Section> {
        let answers = usize::try_from(self.forgotten).unwrap_or(usize::MAX);
        vec![Section::Text(format!("forgot {} of {}\n", plural(answers, "answer"), self.what))]
    }
}

impl From<&Forgotten> for ForgottenLine {
    fn from(forgotten: &Forgotten) -> Self {
        let forget = &forgotten.forget;
        let (models, requests) = match &forget.what {
            Scope::Models(models) => {
                (models.iter().map(|model| model_id(model)).collect(), Vec::new())
            }
            Scope::Requests(requests) => (Vec::new(), requests.clone()),
        };
        Self {
            at: forgotten.t_utc,
            answers: forget.answers,
            models,
            requests,
            author: forget.author.clone(),
            reason: forget.reason.clone(),
            what: described(&forget.what),
        }
    }
}

impl View for LedgerView {
    fn sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        if self.models.is_empty() {
            sections.push(Section::Text("no answer of a model is recorded\n".to_owned()));
        } else {
            let header = ["id", "answers", "kinds", "first (UTC)", "last (UTC)", "model"];
            let rows = self.models.iter().map(ModelLine::cells).collect();
            sections.push(Section::Table(Grid::new(&header, &["answers"], rows)));
        }
        if !self.forgotten.is_empty() {
            let header = ["forgotten (UTC)", "answers", "what", "author", "reason"];
            let rows = self.forgotten.iter().map(ForgottenLine::cells).collect();
            sections.push(Section::Table(Grid::new(&header, &["answers"], rows)));
        }
        sections
    }
}

impl ModelLine {
    fn cells(&self) -> Vec<String> {
        let kind = |(kind, n): (&String, &u64)| format!("{} {}", count(*n), printable(kind, false));
        vec![
            self.id.clone(),
            count(self.answers),
            self.kinds.iter().map(kind).collect::<Vec<_>>().join(", "),
            date_and_time(self.first),
            date_and_time(self.last),
            summary(&self.model),
        ]
    }
}

impl ForgottenLine {
    fn cells(&self) -> Vec<String> {
        vec![
            date_and_time(self.at),
            count(self.answers),
            self.what.clone(),
            printable(&self.author, false),
            printable(&self.reason, false),
        ]
    }
}

/// The id by which commands name a model: the beginning of the digest of its identity.
pub fn model_id(identity: &str) -> String {
    Digest::of(identity.as_bytes()).to_string().chars().take(ID_DIGITS).collect()
}

/// The parts of the identity of a model.
pub fn parts(identity: &str) -> Map<String, Json> {
    serde_json::from_str(identity).unwrap_or_default()
}

/// Whose answers are meant, or which.
pub fn described(scope: &Scope) -> String {
    match scope {
        Scope::Models(models) => {
            let one = |model: &String| format!("{} ({})", model_id(model), summary(model));
            models.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Scope::Requests(requests) => {
            let requests: Vec<String> = requests.iter().map(Digest::to_string).collect();
            format!("request {}", requests.join(", "))
        }
    }
}

/// A model on one line: where it is, or what it is made of.
fn summary(identity: &str) -> String {
    let parts = parts(identity);
    let text = |key: &str| parts.get(key).and_then(Json::as_str).unwrap_or_default();
    let shown = match (text("url"), text("weights")) {
        ("", "") => identity.to_owned(),
        ("", weights) => {
            let weights: String = weights.chars().take(ID_DIGITS).collect();
            format!("weights {weights}, {}, {}", text("dtype"), text("device"))
        }
        (url, _) => format!("`{}` at {url}", text("model")),
    };
    printable(&secret::covered(&shown), false)
}
