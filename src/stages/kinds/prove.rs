//! `prove`: proofs of hypotheses as a model writes them, one that begins freely (or several
//! samples) and one that begins with each recalled fact.
//!
//! Source: Entailer's prover and TeachMe's forced generation; the strings are those of the released
//! code (allenai/entailment_bank, `entailer.md`).

use arrow::datatypes::SchemaRef;
use proofmill_settings::options::GenerateOptions;
use serde_json::{Value as Json, json};

use crate::stages::diagnostics::Diagnostics;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::queries::sql_kind::{self, Named, SqlKind, after_comma, literal};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::prove::Prove;

const KIND: &str = "prove";
/// The columns of the table, but for those that rows keep.
const COLUMNS: [&str; 17] = [
    "proof_id",
    "prompt",
    "hypothesis_id",
    "question_id",
    "label",
    "answer",
    "question",
    "hypothesis",
    "strategy",
    "forced_fact_id",
    "forced_fact",
    "context",
    "text",
    "premises",
    "finish_reason",
    "output_tokens",
    "request_digest",
];

impl Kind for Prove {
    fn traits(&self) -> Traits {
        Traits {
            version: 1,
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
        let columns = ["hypothesis_id", "question_id", "question", "label", "answer", "hypothesis"];
        let help = "name the table of a `hypothesize` stage";
        let context = match inputs.name("context") {
            Some(context) => Some(inputs.table_of(context)?),
            None => None,
        };
        let mut valid = vec![
            sql_kind::expect_columns((KIND, "from"), &columns, &input, help, diagnostics),
            sql_kind::model(&[KIND, "model"], &self.model, engine, diagnostics),
            sql_kind::keep(KIND, &self.keep, &COLUMNS, &input, diagnostics),
            diagnostics.options(&[KIND, "options"], self.options.check()),
            something_written(KIND, (self.free, self.forced), context.is_some(), diagnostics),
            facts_begin(KIND, self.facts_alone, self.forced, diagnostics),
        ];
        if let Some(table) = &context {
            valid.push(recalled((KIND, "context"), &table.schema(), diagnostics));
        }
        if valid.contains(&None) {
            return None;
        }
        let sql = query(self, context.is_some());
        let mut named = Named::from([("hypotheses".to_owned(), table)]);
        named.extend(context.map(|context| ("recalled".to_owned(), context)));
        let query =
            SqlKind { kind: KIND, sql: &sql, tables: named, models: &[(&self.model, "model")] };
        query.prepare(engine, components, diagnostics)
    }
}

/// The columns of what was recalled are there; a diagnostic in `[kind, key]` if not.
pub fn recalled(
    at: (&str, &str),
    schema: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let columns = ["query_id", "rank", "score", "fact_id", "fact"];
    sql_kind::expect_columns(
        at,
        &columns,
        schema,
        "name the table of a `retrieve` stage",
        diagnostics,
    )
}

/// Some proofs are written: free ones, or forced ones that have facts to begin with.
pub fn something_written(
    kind: &str,
    (free, forced): (bool, bool),
    has_context: bool,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    if free || forced && has_context {
        return Some(());
    }
    let (steps, message) = if forced {
        (
            [kind, "free"],
            "no proofs would be written: `free` is off, and forced proofs need a `context`",
        )
    } else {
        ([kind, "forced"], "no proofs would be written: `free` and `forced` are both off")
    };
    diagnostics.error(&steps, Code::WrongValue, message.to_owned(), None);
    None
}

/// Facts that are proofs by themselves are facts that begin proofs.
pub fn facts_begin(
    kind: &str,
    alone: bool,
    forced: bool,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    if forced || !alone {
        return Some(());
    }
    let message = "`facts_alone` has no effect when `forced` is off".to_owned();
    diagnostics.error(&[kind, "facts_alone"], Code::WrongValue, message, None);
    None
}

/// How forced proofs are written: as free ones, but the likeliest of each only.
fn forced_options(options: &GenerateOptions) -> Json {
    let GenerateOptions {
        max_tokens, min_tokens, num_beams, length_penalty, early_stopping, ..
    } = options;
    let GenerateOptions { stop, truncate, truncation_side, .. } = options;
    json!({
        "max_tokens": max_tokens, "min_tokens": min_tokens, "num_beams": num_beams,
        "length_penalty": length_penalty, "early_stopping": early_stopping, "stop": stop,
        "truncate": truncate, "truncation_side": truncation_side, "on_error": "capture",
    })
}

/// The query over `hypotheses` and, with a context, `recalled`.
pub fn query(settings: &Prove, has_context: bool) -> String {
    let keep = after_comma(&settings.keep, "hypotheses.");
    let kept = after_comma(&settings.keep, "");
    let facts = if has_context {
        "SELECT query_id, string_agg(fact, ' ' ORDER BY rank) AS sentences,
            array_agg(named_struct('fact_id', fact_id, 'fact', fact, 'rank', rank, 'score', score)
                ORDER BY rank) AS context
        FROM recalled GROUP BY query_id"
    } else {
        "SELECT NULL AS query_id, CAST(NULL AS VARCHAR) AS sentences, NULL AS context WHERE false"
    };
    let question = if settings.question {
        "'$question$ = ' || hypotheses.question || ' ; $answer$ = ' || hypotheses.answer || ' ; '"
    } else {
        "''"
    };
    let mut options = json!(settings.options);
    options["on_error"] = json!("capture");
    let free_options = literal(&options.to_string());
    let model = literal(&settings.model);
    let many = settings.options.is_counted();
    let free = if many {
        format!(
            "SELECT *, '/free' || said_['sample'] AS attempt_ FROM (
                SELECT *, unnest(all_said_) AS said_ FROM (
                    SELECT *, 'free' AS strategy, CAST(NULL AS VARCHAR) AS forced_fact_id,
                        CAST(NULL AS VARCHAR) AS forced_fact,
                        generate({model}, prompt, {free_options}) AS all_said_
                    FROM asked))"
        )
    } else {
        format!(
            "SELECT *, 'free' AS strategy, CAST(NULL AS VARCHAR) AS forced_fact_id,
                CAST(NULL AS VARCHAR) AS forced_fact,
                generate({model}, prompt, {free_options}) AS said_, '/free' AS attempt_
            FROM asked"
        )
    };
    // A forced proof is the likeliest one that begins with its fact.
    let options: String = match forced_options(&settings.options) {
        Json::Object(options) => {
            let given = options.iter().filter(|(_, value)| !value.is_null());
            given.map(|(key, value)| format!(", '{key}', {}", sql_value(value))).collect()
        }
        _ => String::new(),
    };
    let forced = if settings.facts_alone {
        "named_struct('text', '$proof$ = [PREMISE] ' || forced_fact,
            'finish_reason', CAST(NULL AS VARCHAR), 'output_tokens', CAST(0 AS BIGINT),
            'request_digest', CAST(NULL AS VARCHAR),
            'error', CASE WHEN false THEN named_struct('class', '', 'message', '') END)"
            .to_owned()
    } else {
        format!(
            "generate({model}, prompt, named_struct(
                'prefix', '$proof$ = [PREMISE] ' || forced_fact{options}))"
        )
    };
    let forced = format!(
        "SELECT *, 'forced' AS strategy, {forced} AS said_
        FROM (SELECT asked.*, recalled.fact_id AS forced_fact_id, recalled.fact AS forced_fact,
                '/fact' || recalled.rank AS attempt_
            FROM asked JOIN recalled ON recalled.query_id = asked.question_id)"
    );
    let columns = format!(
        "hypothesis_id || attempt_ AS proof_id, prompt, hypothesis_id, question_id, label, answer,
            question, hypothesis, strategy, forced_fact_id, forced_fact, context,
            said_['text'] AS text, premises(said_['text']) AS premises,
            said_['finish_reason'] AS finish_reason, said_['output_tokens'] AS output_tokens,
            said_['request_digest'] AS request_digest{kept}, said_['error'] AS error"
    );
    let written = match (settings.free, settings.forced && has_context) {
        (true, false) | (false, false) => format!("SELECT {columns} FROM ({free})"),
        (false, true) => format!("SELECT {columns} FROM ({forced})"),
        (true, true) => {
            format!("SELECT {columns} FROM ({free}) UNION ALL SELECT {columns} FROM ({forced})")
        }
    };
    format!(
        "WITH facts AS ({facts}),
        asked AS (
            SELECT hypotheses.hypothesis_id, hypotheses.question_id, hypotheses.label,
                hypotheses.answer, hypotheses.question, hypotheses.hypothesis, facts.context{keep},
                '$proof$ ; ' || {question} || '$hypothesis$ = ' || hypotheses.hypothesis
                    || coalesce(' ; $context$ = [HIGH] ' || facts.sentences, '') AS prompt
            FROM hypotheses LEFT JOIN facts ON facts.query_id = hypotheses.question_id
        )
        {written}"
    )
}

/// A value of an option as SQL writes it; a list is one of texts.
fn sql_value(value: &Json) -> String {
    match value {
        Json::String(text) => literal(text),
        Json::Array(texts) => {
            let texts: Vec<String> = texts.iter().filter_map(Json::as_str).map(literal).collect();
            format!("make_array({})", texts.join(", "))
        }
        number => number.to_string(),
    }
}
