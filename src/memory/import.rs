//! Lessons from a file: one a record, all of them or none.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::memory::error::Result;
use crate::memory::sentence::MARK;
use crate::memory::{Action, Lesson, MemoryError, Sentence, Verb};
use proofmill_base::ids::RunId;
use proofmill_base::suggest;
use proofmill_files::Placed;
use proofmill_pipeline::kinds::read::{Format, Paths, Read};

/// A record as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    action: Option<String>,
    fact: Option<String>,
    #[serde(rename = "as")]
    negation: Option<String>,
    question: Option<String>,
    answer: Option<String>,
    hypothesis: Option<String>,
    premises: Option<Premises>,
    author: Option<String>,
    reason: Option<String>,
    proof: Option<String>,
    run: Option<RunId>,
}

/// Several sentences, or one text in which the mark of premises stands between them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Premises {
    List(Vec<String>),
    Text(String),
}

/// What is wrong with a record, and what to do.
struct Wrong {
    reason: String,
    help: String,
}

impl From<MemoryError> for Wrong {
    fn from(error: MemoryError) -> Self {
        let help = match &error {
            MemoryError::NoNegation { .. } => "give it in the column `as`".to_owned(),
            MemoryError::NoPremises => "give the column `premises`".to_owned(),
            error => error.hint(),
        };
        Self { reason: error.to_string(), help }
    }
}

/// The lessons of the file at `path`, each with its file and line; `author` said those that name no
/// author.
///
/// # Errors
///
/// [`MemoryError::Line`] for the first record that is no lesson; when the file cannot be read.
pub fn read_lessons(path: &str, author: &str) -> Result<Vec<(String, Lesson)>> {
    let settings = Read { path: Some(Paths::One(path.to_owned())), ..Read::default() };
    let source = proofmill_files::open(&settings)?;
    if matches!(source.format(), Format::Parquet | Format::Lines) {
        let wrong = Wrong {
            reason: "lessons cannot be read from this format".to_owned(),
            help: "write them as `.jsonl`, `.json`, `.csv` or `.tsv`".to_owned(),
        };
        return Err(wrong.at(path.to_owned()));
    }
    let lesson = |placed: Placed| {
        let place = format!("{}:{}", placed.source, placed.line);
        let lesson = placed
            .fields
            .map_err(|reason| Wrong { reason, help: "fix the record".to_owned() })
            .and_then(|fields| lesson(fields, author));
        match lesson {
            Ok(lesson) => Ok((place, lesson)),
            Err(wrong) => Err(wrong.at(place)),
        }
    };
    source.records()?.into_iter().map(lesson).collect()
}

impl Wrong {
    fn at(self, place: String) -> MemoryError {
        MemoryError::Line { place, reason: self.reason, help: self.help }
    }
}

fn lesson(fields: Map<String, Value>, author: &str) -> Result<Lesson, Wrong> {
    let record: Record = serde_json::from_value(Value::Object(fields)).map_err(|error| Wrong {
        reason: error.to_string(),
        help: "the columns are `fact`, `action`, `as`, `question`, `answer`, `hypothesis`, `premises`, \
               `author`, `reason`, `proof` and `run`; all but `run` are strings"
            .to_owned(),
    })?;
    let action = action(&record)?;
    let author = record.author.unwrap_or_else(|| author.to_owned());
    let Record { reason, proof, run, .. } = record;
    Ok(Lesson { action, author, reason, proof, run })
}

fn action(record: &Record) -> Result<Action, Wrong> {
    let verb = match record.action.as_deref() {
        None => Verb::Add,
        Some(name) => verb(name)?,
    };
    let required = |value: &Option<String>, column: &str| match value {
        Some(text) => Ok(text.parse::<Sentence>()?),
        None => Err(Wrong {
            reason: format!("`{verb}` needs a `{column}`"),
            help: format!("give the column `{column}`"),
        }),
    };
    let fact = || required(&record.fact, "fact");
    let question = || required(&record.question, "question");
    let optional_question = || record.question.as_deref().map(str::parse::<Sentence>).transpose();
    Ok(match verb {
        Verb::Add => Action::Add { fact: fact()?, question: optional_question()? },
        Verb::Affirm => Action::Affirm { fact: fact()?, question: optional_question()? },
        Verb::Negate => Action::negate(
            fact()?,
            record.negation.as_deref().map(str::parse).transpose()?,
            optional_question()?,
        )?,
        Verb::Block => {
            let hypothesis = required(&record.hypothesis, "hypothesis")?;
            Action::block(hypothesis, premises(record)?)?
        }
        Verb::Confirm => Action::Confirm {
            question: question()?,
            answer: required(&record.answer, "answer")?,
            premises: premises(record)?,
        },
        Verb::Exclude => Action::Exclude { fact: fact()?, question: question()? },
        Verb::Force => Action::Force { fact: fact()?, question: question()? },
        Verb::Undo => {
            return Err(Wrong {
                reason: "a file cannot undo entries".to_owned(),
                help: "use `proofmill teach undo`".to_owned(),
            });
        }
    })
}

fn verb(name: &str) -> Result<Verb, Wrong> {
    let found = Verb::ALL.into_iter().find(|verb| verb.as_str() == name);
    found.ok_or_else(|| {
        let help = suggest::help(name, Verb::ALL.map(Verb::as_str)).unwrap_or_default();
        Wrong { reason: format!("there is no action `{name}`"), help }
    })
}

fn premises(record: &Record) -> Result<Vec<Sentence>, MemoryError> {
    let texts: Vec<&str> = match &record.premises {
        None => Vec::new(),
        Some(Premises::List(texts)) => texts.iter().map(String::as_str).collect(),
        Some(Premises::Text(text)) => {
            text.split(MARK).filter(|premise| !premise.trim().is_empty()).collect()
        }
    };
    texts.into_iter().map(str::parse).collect()
}
