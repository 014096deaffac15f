//! `hypothesize`: one declarative hypothesis for each possible answer of a question.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::json;

use crate::graph::{Role, Stage};
use crate::session::Engine;
use crate::spec::code::Code;
use crate::spec::kinds::hypothesize::{Candidates, Hypothesize};
use crate::stages::components::Components;
use crate::stages::lowered::{self, Named, after_comma, is_texts, literal, name};
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};

const KIND: &str = "hypothesize";
/// The columns of the table, but for those that rows keep.
pub const COLUMNS: [&str; 8] = [
    "hypothesis_id",
    "question",
    "question_id",
    "choice",
    "label",
    "answer",
    "hypothesis",
    "request_digest",
];

/// Checks the settings and plans the query.
pub fn prepare(
    stage: &Stage,
    settings: &Hypothesize,
    tables: &Tables,
    engine: &Engine,
    components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let table = tables.get(stage.input(&Role::From)?)?;
    let input = table.schema();
    let sound = [
        place.column(&[KIND, "id"], &settings.id, &input).map(drop),
        lowered::text(&[KIND, "question"], &settings.question, &input, engine, place),
        lowered::keep(KIND, &settings.keep, &COLUMNS, &input, place),
    ];
    let answers = answers(settings, &input, engine, place);
    let wording = wording(settings, &input, engine, place);
    let (answers, wording) = (answers?, wording?);
    if sound.contains(&None) {
        return None;
    }
    let sql = query(settings, &input, &answers, &wording);
    let tables = Named::from([("questions".to_owned(), table)]);
    let expressions =
        ["question", "choices", "labels", "statement", "negation", "hypotheses", "hypothesis"];
    lowered::outcome(KIND, &sql, tables, settings, &expressions, engine, components, place)
}

/// Where the answers of a question come from.
enum Answers {
    /// SQL: a list of texts, and one of their labels.
    Given(String, Option<String>),
    /// SQL: what a model says, several times.
    Sampled(String, u32),
}

fn answers(
    settings: &Hypothesize,
    input: &SchemaRef,
    engine: &Engine,
    place: &mut Place<'_>,
) -> Option<Answers> {
    if let Some(candidates) = &settings.candidates {
        return sampled(candidates, input, engine, place);
    }
    if settings.statement.is_some() {
        let both = "make_array('true', 'false')".to_owned();
        return Some(Answers::Given(both.clone(), Some(both)));
    }
    let choices = settings.choices.as_ref()?;
    texts(&[KIND, "choices"], choices, input, engine, place)?;
    if let Some(labels) = &settings.labels {
        texts(&[KIND, "labels"], labels, input, engine, place)?;
    }
    Some(Answers::Given(choices.clone(), settings.labels.clone()))
}

fn sampled(
    candidates: &Candidates,
    input: &SchemaRef,
    engine: &Engine,
    place: &mut Place<'_>,
) -> Option<Answers> {
    let steps = |key| [KIND, "candidates", key];
    lowered::model(&steps("model"), &candidates.model, engine, place)?;
    lowered::text(&steps("prompt"), &candidates.prompt, input, engine, place)?;
    if candidates.options.samples.is_none() {
        let message = "candidates are samples, and `samples` is missing".to_owned();
        let help = "set `samples: 20` and `temperature: 1`, say".to_owned();
        place.mistake(&steps("options"), Code::WrongValue, message, Some(help));
        return None;
    }
    let call = format!(
        "generate({}, ({}), {})",
        literal(&candidates.model),
        candidates.prompt,
        literal(&json!(candidates.options).to_string())
    );
    Some(Answers::Sampled(call, candidates.keep))
}

/// Where the text of a hypothesis comes from.
enum Wording {
    /// SQL over the questions: a list of texts.
    Listed(String),
    /// SQL over question, label and answer.
    Written(String),
    /// A model, and its options.
    Model(String, String),
}

fn wording(
    settings: &Hypothesize,
    input: &SchemaRef,
    engine: &Engine,
    place: &mut Place<'_>,
) -> Option<Wording> {
    if let Some(statement) = &settings.statement {
        lowered::text(&[KIND, "statement"], statement, input, engine, place)?;
        let Some(negation) = &settings.negation else {
            let message = "a `statement` needs its `negation`".to_owned();
            place.mistake(&[KIND, "statement"], Code::WrongValue, message, None);
            return None;
        };
        lowered::text(&[KIND, "negation"], negation, input, engine, place)?;
        return Some(Wording::Listed(format!("make_array(({statement}), ({negation}))")));
    }
    match (&settings.hypotheses, &settings.hypothesis, &settings.model) {
        (Some(texts_of), None, None) => {
            texts(&[KIND, "hypotheses"], texts_of, input, engine, place)?;
            Some(Wording::Listed(format!("({texts_of})")))
        }
        (None, Some(text), None) => {
            let own = ["label", "answer"];
            let fields = input.fields().iter().filter(|field| !own.contains(&field.name().as_str()));
            let own = own.map(|name| Field::new(name, DataType::Utf8, true).into());
            let fields: Vec<_> = fields.cloned().chain(own).collect();
            let scope = SchemaRef::new(Schema::new(fields));
            lowered::text(&[KIND, "hypothesis"], text, &scope, engine, place)?;
            Some(Wording::Written(text.clone()))
        }
        (None, None, Some(model)) => {
            lowered::model(&[KIND, "model"], model, engine, place)?;
            let mut options = json!(settings.options);
            options["on_error"] = json!("capture");
            Some(Wording::Model(model.clone(), options.to_string()))
        }
        (None, None, None) => {
            let message = "nothing says how a hypothesis reads".to_owned();
            let help = "give `hypotheses` (a list), `hypothesis` (SQL over `label`, `answer` and the \
                        columns), or a `model` that writes them";
            place.mistake(&[KIND], Code::WrongValue, message, Some(help.to_owned()));
            None
        }
        _ => {
            let message =
                "`hypotheses`, `hypothesis` and `model` say the same in three ways".to_owned();
            place.mistake(&[KIND], Code::WrongValue, message, Some("keep one".to_owned()));
            None
        }
    }
}

/// A list of texts over the columns of the questions.
fn texts(
    steps: &[&str],
    text: &str,
    input: &SchemaRef,
    engine: &Engine,
    place: &mut Place<'_>,
) -> Option<()> {
    let kind = lowered::expression(steps, text, input, engine, place)?;
    if is_texts(&kind) {
        return Some(());
    }
    let message = format!("`{}` is {kind}, and a list of texts is needed", steps[1]);
    place.mistake(steps, Code::SqlType, message, None);
    None
}

/// The query. Kept columns stand inside a struct on their way, so that no name meets another.
fn query(settings: &Hypothesize, input: &SchemaRef, answers: &Answers, wording: &Wording) -> String {
    let id = name(&settings.id);
    let question = &settings.question;
    let written = match wording {
        Wording::Listed(list) => format!(", {list} AS hypotheses_"),
        Wording::Written(_) | Wording::Model(..) => String::new(),
    };
    let columns = input.fields().iter().map(|field| field.name().clone());
    let columns: Vec<String> =
        columns.filter(|column| column != "label" && column != "answer").collect();
    let row = match wording {
        Wording::Written(_) => after_comma(&columns, ""),
        Wording::Listed(_) | Wording::Model(..) => after_comma(&settings.keep, ""),
    };
    let asked = match answers {
        Answers::Given(answers, labels) => {
            let labels = labels.as_ref().map_or("NULL".to_owned(), |labels| format!("({labels})"));
            format!(
                "asked AS (
                    SELECT CAST({id} AS VARCHAR) AS question_id_, ({question}) AS question_,
                        ({answers}) AS answers_, {labels} AS labels_{written}{row}
                    FROM questions
                )"
            )
        }
        Answers::Sampled(call, most) => format!(
            "said AS (
                SELECT CAST({id} AS VARCHAR) AS question_id_, ({question}) AS question_,
                    {call} AS said_{written}{row}
                FROM questions
            ),
            texts AS (SELECT question_id_, trim(one['text']) AS text, one['sample'] AS sample
                FROM (SELECT question_id_, unnest(said_) AS one FROM said)),
            counted AS (SELECT question_id_, text, count(*) AS times, min(sample) AS first
                FROM texts WHERE text <> '' GROUP BY question_id_, text),
            placed AS (SELECT *, row_number() OVER (
                PARTITION BY question_id_ ORDER BY times DESC, first) AS place FROM counted),
            best AS (SELECT question_id_ AS of_, array_agg(text ORDER BY place) AS answers_
                FROM placed WHERE place <= {most} GROUP BY question_id_),
            asked AS (SELECT said.*, answers_, NULL AS labels_ FROM said JOIN best ON of_ = question_id_)"
        ),
    };
    let shown = match wording {
        Wording::Written(_) => after_comma(&columns, ""),
        Wording::Listed(_) | Wording::Model(..) => after_comma(&settings.keep, ""),
    };
    let listed = if written.is_empty() { "" } else { ", hypotheses_[choice_ + 1] AS hypothesis_" };
    let label = match answers {
        Answers::Given(_, Some(_)) => "CAST(labels_[choice_ + 1] AS VARCHAR)",
        Answers::Given(_, None) | Answers::Sampled(..) => "chr(65 + choice_)",
    };
    let rows = format!(
        "numbered AS (
            SELECT *, unnest(range(CAST(array_length(answers_) AS BIGINT))) AS choice_ FROM asked
        ),
        rows AS (
            SELECT question_id_ || '#' || choice_ AS hypothesis_id_, question_id_, question_, choice_,
                {label} AS label, CAST(answers_[choice_ + 1] AS VARCHAR) AS answer{listed}{shown}
            FROM numbered
        )"
    );
    let (worded, hypothesis, last) = match wording {
        Wording::Listed(_) => {
            ("rows".to_owned(), "hypothesis_".to_owned(), "CAST(NULL AS VARCHAR) AS request_digest")
        }
        Wording::Written(text) => {
            ("rows".to_owned(), format!("({text})"), "CAST(NULL AS VARCHAR) AS request_digest")
        }
        Wording::Model(model, options) => (
            format!(
                "(SELECT *, generate({}, '$hypothesis$ ; $question$ = ' || question_ || \
                 ' ; $answer$ = ' || answer, {}) AS said_ FROM rows)",
                literal(model),
                literal(options)
            ),
            "coalesce(slot_value(said_['text'], 'hypothesis'), trim(said_['text']))".to_owned(),
            "said_['request_digest'] AS request_digest",
        ),
    };
    let keep = after_comma(&settings.keep, "");
    let error = match wording {
        Wording::Model(..) => ", said_['error'] AS error",
        Wording::Listed(_) | Wording::Written(_) => "",
    };
    format!(
        "WITH {asked}, {rows}
        SELECT hypothesis_id_ AS hypothesis_id, question_ AS question, question_id_ AS question_id,
            choice_ AS choice, label, answer, {hypothesis} AS hypothesis, {last}{keep}{error}
        FROM {worded}"
    )
}
