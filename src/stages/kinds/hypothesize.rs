//! `hypothesize`: one declarative hypothesis for each possible answer of a question.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use proofmill_settings::options::GenerateOptions;
use serde_json::json;

use crate::session::Engine;
use crate::stages::diagnostics::{Diagnostics, mismatch};
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::queries::sql_kind::{
    self, Named, SqlKind, after_comma, inside, is_texts, literal, name,
};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::hypothesize::{Candidates, Hypothesize};

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

impl Kind for Hypothesize {
    fn traits(&self) -> Traits {
        Traits {
            version: 2,
            rows_can_fail: true,
            has_partitions: true,
            settings: Counted::All,
            repeats: Repeats::Set,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, components, diagnostics, .. } = context;
        let table = inputs.table("from")?;
        let input = table.schema();
        let valid = [
            diagnostics.column(&[KIND, "id"], &self.id, &input).map(drop),
            sql_kind::text(&[KIND, "question"], &self.question, &input, engine, diagnostics),
            sql_kind::keep(KIND, &self.keep, &COLUMNS, &input, diagnostics),
            effective(self, diagnostics),
        ];
        let answers = answers(self, &input, engine, diagnostics);
        let wording = wording(self, &input, engine, diagnostics);
        let (answers, wording) = (answers?, wording?);
        if valid.contains(&None) {
            return None;
        }
        let sql = query(self, &input, &answers, &wording);
        let tables = Named::from([("questions".to_owned(), table)]);
        let candidates = self.candidates.as_ref().map(|it| (&*it.model, "candidates.model"));
        let model = self.model.as_deref().map(|model| (model, "model"));
        let models: Vec<_> = candidates.into_iter().chain(model).collect();
        SqlKind { kind: KIND, sql: &sql, tables, models: &models }.prepare(
            engine,
            components,
            diagnostics,
        )
    }
}

/// No setting is there that changes nothing.
fn effective(settings: &Hypothesize, diagnostics: &mut Diagnostics<'_>) -> Option<()> {
    let Hypothesize { choices, labels, statement, negation, .. } = settings;
    let Hypothesize { hypotheses, hypothesis, model, options, .. } = settings;
    let idle = [
        (labels.is_some() && choices.is_none(), "labels", "without `choices`"),
        (negation.is_some() && statement.is_none(), "negation", "without a `statement`"),
        (hypotheses.is_some() && statement.is_some(), "hypotheses", "with `statement`"),
        (hypothesis.is_some() && statement.is_some(), "hypothesis", "with `statement`"),
        (model.is_some() && statement.is_some(), "model", "with `statement`"),
        (
            model.is_none() && *options != GenerateOptions::default(),
            "options",
            "without a `model` that writes",
        ),
    ];
    let idle: Vec<_> = idle.into_iter().filter(|(is_idle, ..)| *is_idle).collect();
    for (_, key, why) in &idle {
        let message = format!("`{key}` has no effect {why}");
        diagnostics.error(&[KIND, key], Code::UnknownKey, message, None);
    }
    idle.is_empty().then_some(())
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
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Answers> {
    if let Some(candidates) = &settings.candidates {
        return sampled(candidates, input, engine, diagnostics);
    }
    if settings.statement.is_some() {
        let both = "make_array('true', 'false')".to_owned();
        return Some(Answers::Given(both.clone(), Some(both)));
    }
    let choices = settings.choices.as_ref()?;
    texts(&[KIND, "choices"], choices, input, engine, diagnostics)?;
    if let Some(labels) = &settings.labels {
        texts(&[KIND, "labels"], labels, input, engine, diagnostics)?;
    }
    Some(Answers::Given(inside(choices), settings.labels.as_deref().map(inside)))
}

fn sampled(
    candidates: &Candidates,
    input: &SchemaRef,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Answers> {
    let steps = |key| [KIND, "candidates", key];
    sql_kind::model(&steps("model"), &candidates.model, engine, diagnostics)?;
    sql_kind::text(&steps("prompt"), &candidates.prompt, input, engine, diagnostics)?;
    if candidates.options.samples.is_none() {
        let message = "candidates are sampled, but `samples` is missing".to_owned();
        let help = "set, for example, `samples: 20` and `temperature: 1`".to_owned();
        diagnostics.error(&steps("options"), Code::WrongValue, message, Some(help));
        return None;
    }
    diagnostics.options(&steps("options"), candidates.options.check())?;
    let mut options = json!(candidates.options);
    options["on_error"] = json!("capture");
    let call = format!(
        "generate({}, {}, {})",
        literal(&candidates.model),
        inside(&candidates.prompt),
        literal(&options.to_string())
    );
    Some(Answers::Sampled(call, candidates.keep))
}

/// Where the text of a hypothesis comes from.
enum Wording {
    /// SQL over the questions: a list of texts.
    Listed(String),
    /// SQL over question, label and answer.
    Written(String),
    Model(String, String),
}

fn wording(
    settings: &Hypothesize,
    input: &SchemaRef,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Wording> {
    if let Some(statement) = &settings.statement {
        sql_kind::text(&[KIND, "statement"], statement, input, engine, diagnostics)?;
        let Some(negation) = &settings.negation else {
            let message = "`statement` requires `negation`".to_owned();
            diagnostics.error(&[KIND, "statement"], Code::WrongValue, message, None);
            return None;
        };
        sql_kind::text(&[KIND, "negation"], negation, input, engine, diagnostics)?;
        return Some(Wording::Listed(format!(
            "make_array({}, {})",
            inside(statement),
            inside(negation)
        )));
    }
    match (&settings.hypotheses, &settings.hypothesis, &settings.model) {
        (Some(texts_of), None, None) => {
            texts(&[KIND, "hypotheses"], texts_of, input, engine, diagnostics)?;
            Some(Wording::Listed(inside(texts_of)))
        }
        (None, Some(text), None) => {
            let own = ["label", "answer"];
            let fields =
                input.fields().iter().filter(|field| !own.contains(&field.name().as_str()));
            let own = own.map(|name| Field::new(name, DataType::Utf8, true).into());
            let fields: Vec<_> = fields.cloned().chain(own).collect();
            let scope = SchemaRef::new(Schema::new(fields));
            sql_kind::text(&[KIND, "hypothesis"], text, &scope, engine, diagnostics)?;
            Some(Wording::Written(inside(text)))
        }
        (None, None, Some(model)) => {
            sql_kind::model(&[KIND, "model"], model, engine, diagnostics)?;
            diagnostics.options(&[KIND, "options"], settings.options.check())?;
            let several = ["samples", "num_return_sequences"];
            let given = [settings.options.samples, settings.options.num_return_sequences];
            if let Some((key, _)) = several.iter().zip(given).find(|(_, given)| given.is_some()) {
                let message = format!("`{key}` generates several texts, but a hypothesis is one");
                diagnostics.error(&[KIND, "options", key], Code::WrongValue, message, None);
                return None;
            }
            let mut options = json!(settings.options);
            options["on_error"] = json!("capture");
            Some(Wording::Model(model.to_string(), options.to_string()))
        }
        (None, None, None) => {
            let message = "no setting defines the text of a hypothesis".to_owned();
            let help = "give `hypotheses` (a list), `hypothesis` (SQL over `label`, `answer` and the \
                        columns), or a `model` that writes them";
            diagnostics.error(&[KIND], Code::WrongValue, message, Some(help.to_owned()));
            None
        }
        _ => {
            let message = "`hypotheses`, `hypothesis` and `model` are alternatives".to_owned();
            diagnostics.error(&[KIND], Code::WrongValue, message, Some("keep one".to_owned()));
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
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let kind = sql_kind::expression(steps, text, input, engine, diagnostics)?;
    if is_texts(&kind) {
        return Some(());
    }
    let message = mismatch(&format!("`{}`", steps[1]), "a list of strings", &kind);
    diagnostics.error(steps, Code::SqlType, message, None);
    None
}

/// The query. Its own columns end in `_` on their way, so that they meet no kept one. What a question
/// lacks fails its row.
fn query(
    settings: &Hypothesize,
    input: &SchemaRef,
    answers: &Answers,
    wording: &Wording,
) -> String {
    let columns = match wording {
        Wording::Written(_) => {
            let columns = input.fields().iter().map(|field| field.name().clone());
            columns.filter(|column| column != "label" && column != "answer").collect()
        }
        Wording::Listed(_) | Wording::Model(..) => settings.keep.clone(),
    };
    let columns = after_comma(&columns, "");
    let (failure, failed) = match answers {
        Answers::Given(..) => ("", ""),
        Answers::Sampled(..) => (", failure_", "WHEN failure_ IS NOT NULL THEN failure_"),
    };
    let (list, listed) = match wording {
        Wording::Listed(list) => {
            (format!(", {list} AS hypotheses_"), ", hypotheses_[choice_ + 1] AS hypothesis_")
        }
        Wording::Written(_) | Wording::Model(..) => (String::new(), ""),
    };
    let label = match answers {
        Answers::Given(_, Some(_)) => "CAST(labels_[choice_ + 1] AS VARCHAR)",
        Answers::Given(_, None) | Answers::Sampled(..) => "chr(65 + choice_)",
    };
    let id = name(&settings.id);
    let question = inside(&settings.question);
    let own =
        format!("CAST({id} AS VARCHAR) AS question_id_, {question} AS question_{list}{columns}");
    let none = "CAST(NULL AS VARCHAR) AS request_digest";
    let (worded, hypothesis, digest, unworded) = match wording {
        Wording::Listed(_) => ("rows".to_owned(), "hypothesis_".to_owned(), none, ""),
        Wording::Written(text) => {
            (format!("(SELECT *, {text} AS hypothesis_ FROM rows)"), "hypothesis_".to_owned(), none, "")
        }
        Wording::Model(model, options) => (
            format!(
                "(SELECT *, generate({}, '$hypothesis$ ; $question$ = ' || question_ || \
                 ' ; $answer$ = ' || answer, {}) AS worded_ FROM rows)",
                literal(model),
                literal(options)
            ),
            "nullif(coalesce(slot_value(worded_['text'], 'hypothesis'), trim(worded_['text'])), '')"
                .to_owned(),
            "worded_['request_digest'] AS request_digest",
            "WHEN worded_['error'] IS NOT NULL THEN worded_['error']",
        ),
    };
    let lacks = |what: &str| format!("named_struct('class', 'invalid', 'message', '{what}')");
    let keep = after_comma(&settings.keep, "");
    format!(
        "WITH {answered},
        numbered AS (
            SELECT *, unnest(CASE WHEN array_length(answers_) > 0
                THEN range(CAST(array_length(answers_) AS BIGINT))
                ELSE make_array(CAST(0 AS BIGINT)) END) AS choice_
            FROM asked
        ),
        rows AS (
            SELECT question_id_ || '#' || choice_ AS hypothesis_id_, question_id_, question_, choice_,
                {label} AS label, CAST(answers_[choice_ + 1] AS VARCHAR) AS answer
                {failure}{listed}{columns}
            FROM numbered
        )
        SELECT hypothesis_id_ AS hypothesis_id, question_ AS question, question_id_ AS question_id,
            choice_ AS choice, label, answer, {hypothesis} AS hypothesis, {digest}{keep},
            CASE {failed}
                WHEN question_ IS NULL THEN {no_question}
                WHEN answer IS NULL THEN {no_answer}
                {unworded}
                WHEN {hypothesis} IS NULL THEN {no_hypothesis} END AS error
        FROM {worded}",
        answered = with_answers(answers, &own),
        no_question = lacks("there is no question"),
        no_answer = lacks("there is no answer, or one that is NULL"),
        no_hypothesis = lacks("there is no hypothesis for this answer"),
    )
}

/// The tables up to `asked`: a question, `own`, with the list of its answers, `answers_`.
fn with_answers(answers: &Answers, own: &str) -> String {
    match answers {
        Answers::Given(answers, labels) => {
            let labels = labels.as_deref().unwrap_or("NULL");
            format!(
                "asked AS (SELECT {own}, {answers} AS answers_, {labels} AS labels_ FROM questions)"
            )
        }
        Answers::Sampled(call, most) => format!(
            "said AS (SELECT {own}, {call} AS said_ FROM questions),
            texts AS (
                SELECT of_, coalesce(slot_value(one_['text'], 'answer'), trim(one_['text'])) AS text_,
                    one_['sample'] AS sample_
                FROM (SELECT question_id_ AS of_, unnest(said_) AS one_ FROM said)
            ),
            counted AS (
                SELECT of_, text_, count(*) AS times_, min(sample_) AS first_
                FROM texts WHERE text_ <> '' GROUP BY of_, text_
            ),
            placed AS (
                SELECT *, row_number() OVER (PARTITION BY of_ ORDER BY times_ DESC, first_) AS place_
                FROM counted
            ),
            best AS (
                SELECT of_, array_agg(text_ ORDER BY place_) AS answers_
                FROM placed WHERE place_ <= {most} GROUP BY of_
            ),
            asked AS (
                SELECT said.*, best.answers_, NULL AS labels_, said_[1]['error'] AS failure_
                FROM said LEFT JOIN best ON best.of_ = said.question_id_
            )"
        ),
    }
}
