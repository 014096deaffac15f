//! `prove`: proofs of hypotheses as a model writes them, one that begins freely (or several
//! samples) and one that begins with each recalled fact.
//!
//! Source: Entailer's prover and TeachMe's forced generation; the strings are those of the released
//! code (allenai/entailment_bank, `entailer.md`).

use serde_json::json;

use crate::graph::{Role, Stage};
use crate::session::Engine;
use crate::spec::kinds::prove::Prove;
use crate::stages::components::Components;
use crate::stages::lowered::{self, Named, after_comma, literal};
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};

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

/// Checks the settings and plans the query.
pub fn prepare(
    stage: &Stage,
    settings: &Prove,
    tables: &Tables,
    engine: &Engine,
    components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let table = tables.get(stage.input(&Role::From)?)?;
    let input = table.schema();
    let columns = ["hypothesis_id", "question_id", "question", "label", "answer", "hypothesis"];
    let help = "name the table of a `hypothesize` stage";
    let context = match stage.input(&Role::Context) {
        Some(context) => Some(tables.get(context)?),
        None => None,
    };
    let mut sound = vec![
        lowered::expect_columns((KIND, "from"), &columns, &input, help, place),
        lowered::model(&[KIND, "model"], &settings.model, engine, place),
        lowered::keep(KIND, &settings.keep, &COLUMNS, &input, place),
    ];
    if let Some(context) = &context {
        let columns = ["query_id", "rank", "score", "fact_id", "fact"];
        let help = "name the table of a `retrieve` stage";
        let schema = context.schema();
        sound.push(lowered::expect_columns((KIND, "context"), &columns, &schema, help, place));
    }
    if sound.contains(&None) {
        return None;
    }
    let sql = query(settings, context.is_some());
    let mut named = Named::from([("hypotheses".to_owned(), table)]);
    named.extend(context.map(|context| ("recalled".to_owned(), context)));
    lowered::outcome(KIND, &sql, named, settings, &[], engine, components, place)
}

/// The query over `hypotheses` and, with a context, `recalled`.
pub fn query(settings: &Prove, has_context: bool) -> String {
    let keep = after_comma(&settings.keep, "");
    let facts = if has_context {
        "SELECT query_id, string_agg(fact, ' ' ORDER BY rank) AS sentences,
            array_agg(named_struct('fact_id', fact_id, 'fact', fact, 'rank', rank, 'score', score)
                ORDER BY rank) AS context
        FROM recalled GROUP BY query_id"
    } else {
        "SELECT NULL AS query_id, CAST(NULL AS VARCHAR) AS sentences, NULL AS context WHERE false"
    };
    let question = if settings.question {
        "'$question$ = ' || question || ' ; $answer$ = ' || answer || ' ; '"
    } else {
        "''"
    };
    let mut options = json!(settings.options);
    options["on_error"] = json!("capture");
    let free_options = literal(&options.to_string());
    let model = literal(&settings.model);
    let many = settings.options.samples.is_some() || settings.options.answers.is_some();
    let free = if many {
        format!(
            "SELECT *, '/free' || said['sample'] AS attempt FROM (
                SELECT *, unnest(said_) AS said FROM (
                    SELECT *, 'free' AS strategy, CAST(NULL AS VARCHAR) AS forced_fact_id,
                        CAST(NULL AS VARCHAR) AS forced_fact,
                        generate({model}, prompt, {free_options}) AS said_
                    FROM asked))"
        )
    } else {
        format!(
            "SELECT *, 'free' AS strategy, CAST(NULL AS VARCHAR) AS forced_fact_id,
                CAST(NULL AS VARCHAR) AS forced_fact,
                generate({model}, prompt, {free_options}) AS said, '/free' AS attempt
            FROM asked"
        )
    };
    // A forced proof is the likeliest one that begins with its fact.
    let most = settings.options.max_tokens.unwrap_or(128);
    let forced = format!(
        "SELECT *, 'forced' AS strategy,
            generate({model}, prompt, named_struct('prefix', '$proof$ = [PREMISE] ' || forced_fact,
                'max_tokens', {most}, 'on_error', 'capture')) AS said
        FROM (SELECT asked.*, fact_id AS forced_fact_id, fact AS forced_fact,
                '/fact' || rank AS attempt
            FROM asked JOIN recalled ON recalled.query_id = asked.question_id)"
    );
    let columns = format!(
        "hypothesis_id || attempt AS proof_id, prompt, hypothesis_id, question_id, label, answer,
            question, hypothesis, strategy, forced_fact_id, forced_fact, context,
            said['text'] AS text, premises(said['text']) AS premises,
            said['finish_reason'] AS finish_reason, said['output_tokens'] AS output_tokens,
            said['request_digest'] AS request_digest{keep}, said['error'] AS error"
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
            SELECT hypothesis_id, question_id, label, answer, question, hypothesis, context{keep},
                '$proof$ ; ' || {question} || '$hypothesis$ = ' || hypothesis
                    || coalesce(' ; $context$ = [HIGH] ' || sentences, '') AS prompt
            FROM hypotheses LEFT JOIN facts ON facts.query_id = hypotheses.question_id
        )
        {written}"
    )
}
