//! `verify`: what a model believes of hypotheses, premises and proofs, and which proofs that leaves.
//!
//! Source: Entailer's verifiers (the angles `$valid$` and `$implied$`), their probabilities as the
//! released code computes them, and the score `s_e * Π s_d` of a one-step proof.

use arrow::datatypes::{DataType, SchemaRef};
use serde_json::json;

use crate::graph::{Role, Stage};
use crate::session::Engine;
use crate::spec::code::Code;
use crate::spec::kinds::verify::{Probability, Verify};
use crate::stages::components::Components;
use crate::stages::lowered::{self, Named, after_comma, is_texts, literal};
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};

const KIND: &str = "verify";
/// What a table of hypotheses passes on, where it is there.
const HYPOTHESIS: [&str; 7] =
    ["hypothesis_id", "hypothesis", "question_id", "choice", "label", "answer", "question"];
/// What a table of proofs passes on, where it is there.
const PROOF: [&str; 11] = [
    "proof_id",
    "hypothesis",
    "hypothesis_id",
    "question_id",
    "label",
    "answer",
    "question",
    "strategy",
    "forced_fact_id",
    "context",
    "text",
];
/// What is said of a proof.
const JUDGED: [&str; 7] =
    ["premises", "entailment", "direct", "score", "accepted", "reject_reason", "request_digests"];

/// Checks the settings and plans the query.
pub fn prepare(
    stage: &Stage,
    settings: &Verify,
    tables: &Tables,
    engine: &Engine,
    components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let table = tables.get(stage.input(&Role::From)?)?;
    let input = table.schema();
    let of_proofs = input.index_of("premises").is_ok();
    let mut needed = if of_proofs {
        vec!["proof_id", "hypothesis_id", "hypothesis"]
    } else {
        vec!["hypothesis_id", "hypothesis"]
    };
    if settings.question {
        needed.extend(["question", "answer"]);
    }
    let own: Vec<&str> = PROOF.into_iter().chain(JUDGED).chain(["choice"]).collect();
    let help = "name the table of a `prove` or a `hypothesize` stage";
    let mut sound = vec![
        lowered::expect_columns((KIND, "from"), &needed, &input, help, place),
        lowered::model(&[KIND, "model"], &settings.model, engine, place),
        lowered::keep(KIND, &settings.keep, &own, &input, place),
        if of_proofs { list("from", &input, place) } else { Some(()) },
    ];
    let mut named = Named::from([("judged".to_owned(), table)]);
    if let Some(blocked) = stage.input(&Role::Blocked) {
        let blocked = tables.get(blocked)?;
        let help = "blocked entailments have the columns `hypothesis` and `premises`";
        let columns = ["hypothesis", "premises"];
        let schema = blocked.schema();
        sound.push(
            lowered::expect_columns((KIND, "blocked"), &columns, &schema, help, place)
                .and_then(|()| list("blocked", &schema, place)),
        );
        named.insert("blocked".to_owned(), blocked);
    }
    if sound.contains(&None) {
        return None;
    }
    let sql = query(settings, &input, named.contains_key("blocked"));
    lowered::outcome(KIND, &sql, named, settings, &[], engine, components, place)
}

/// The query over `judged`, of the columns `input`, and `blocked` if there is such a table.
pub fn query(settings: &Verify, input: &SchemaRef, blocked: bool) -> String {
    let there = |columns: &[&str]| -> Vec<String> {
        let columns = columns.iter().filter(|column| input.index_of(column).is_ok());
        columns.map(|column| (*column).to_owned()).collect()
    };
    let query = Query { settings, input, blocked };
    if input.index_of("premises").is_ok() {
        query.of_proofs(&there(&PROOF))
    } else {
        query.of_hypotheses(&there(&HYPOTHESIS))
    }
}

/// The column `premises` is a list of texts.
fn list(key: &str, table: &SchemaRef, place: &mut Place<'_>) -> Option<()> {
    let kind = table.field_with_name("premises").ok()?.data_type();
    if is_texts(kind) {
        return Some(());
    }
    let message = format!("the column `premises` is {kind}, and a list of texts is needed");
    place.mistake(&[KIND, key], Code::ColumnType, message, None);
    None
}

struct Query<'a> {
    settings: &'a Verify,
    input: &'a SchemaRef,
    blocked: bool,
}

impl Query<'_> {
    /// A call that says how likely the outputs `true` and `false` of a slot are.
    fn call(&self, slot: &str, prompt: &str) -> String {
        let options = json!({
            "with_end": true, "on_error": "capture", "truncate": self.settings.truncate,
        });
        format!(
            "score_choices({}, {prompt}, make_array('${slot}$ = true', '${slot}$ = false'), {})",
            literal(&self.settings.model),
            literal(&options.to_string())
        )
    }

    /// The belief that `said`, the result of such a call, expresses.
    fn belief(&self, said: &str) -> String {
        let p = |choice: u32| format!("exp({said}['choices'][{choice}]['logprob'])");
        match self.settings.probability {
            Probability::Released => format!(
                "CASE WHEN {said}['best'] = 0 THEN {} ELSE 1.0 - {} END",
                p(1),
                p(2)
            ),
            Probability::Renormalized => format!("{0} / ({0} + {1})", p(1), p(2)),
        }
    }

    /// Tables `direct_of` (hypothesis_id, direct, direct_digest, direct_error).
    fn direct(&self) -> String {
        let question = if self.settings.question {
            "'$question$ = ' || question || ' ; $answer$ = ' || answer || ' ; ' || "
        } else {
            ""
        };
        let call = self.call("valid", "prompt");
        let belief = self.belief("said");
        format!(
            "direct_asked AS (
                SELECT DISTINCT hypothesis_id,
                    '$valid$ ; ' || {question}'$hypothesis$ = ' || hypothesis AS prompt
                FROM judged
            ),
            direct_said AS (SELECT hypothesis_id, {call} AS said FROM direct_asked),
            direct_of AS (
                SELECT hypothesis_id AS of_hypothesis, {belief} AS direct,
                    said['request_digest'] AS direct_digest, said['error'] AS direct_error
                FROM direct_said
            )"
        )
    }

    fn of_hypotheses(&self, passed: &[String]) -> String {
        let passed = &after_comma(passed, "judged.")[2..];
        let keep = after_comma(&self.settings.keep, "judged.");
        format!(
            "WITH {direct}
            SELECT {passed}, direct, direct_digest AS request_digest{keep}, direct_error AS error
            FROM judged JOIN direct_of ON of_hypothesis = judged.hypothesis_id",
            direct = self.direct()
        )
    }

    fn of_proofs(&self, passed: &[String]) -> String {
        let threshold = format!("CAST({:?} AS DOUBLE)", self.settings.threshold);
        let has_context = self
            .input
            .field_with_name("context")
            .is_ok_and(|field| matches!(field.data_type(), DataType::List(_)));
        let facts = if has_context {
            "SELECT DISTINCT proof_id AS of_proof, lower(trim(one['fact'])) AS known,
                first_value(one['fact_id'] ORDER BY one['rank']) AS fact_id
            FROM (SELECT proof_id, unnest(context) AS one FROM judged)
            GROUP BY proof_id, lower(trim(one['fact']))"
        } else {
            "SELECT CAST(NULL AS VARCHAR) AS of_proof, CAST(NULL AS VARCHAR) AS known,
                CAST(NULL AS VARCHAR) AS fact_id WHERE false"
        };
        let believed = if self.settings.trust_memory {
            "CASE WHEN facts.fact_id IS NOT NULL THEN CAST(1.0 AS DOUBLE) ELSE belief END"
        } else {
            "belief"
        };
        let blocked = if self.blocked {
            "EXISTS (SELECT 1 FROM blocked WHERE lower(trim(blocked.hypothesis)) = lower(trim(judged.hypothesis))
                AND array_to_string(array_sort(blocked.premises), ' | ')
                    = array_to_string(array_sort(judged.premises), ' | '))"
        } else {
            "false"
        };
        let premise_call = self.call("valid", "'$valid$ ; $hypothesis$ = ' || sentence");
        let premise_belief = self.belief("said");
        let proof_call = self.call(
            "implied",
            "'$implied$ ; $hypothesis$ = ' || hypothesis || ' ; $proof$ = [PREMISE] ' || \
             array_to_string(premises, ' [PREMISE] ')",
        );
        let proof_belief = self.belief("said");
        let passed_on = &after_comma(passed, "judged.")[2..];
        let names = &after_comma(passed, "")[2..];
        let keep = after_comma(&self.settings.keep, "judged.");
        let kept = after_comma(&self.settings.keep, "");
        format!(
            "WITH {direct},
            placed AS (
                SELECT proof_id AS of_proof, place, premises[place] AS sentence FROM (
                    SELECT proof_id, premises,
                        unnest(range(1, CAST(array_length(premises) AS BIGINT) + 1)) AS place
                    FROM judged WHERE array_length(premises) > 0)
            ),
            sentences AS (SELECT DISTINCT sentence FROM placed),
            sentence_said AS (SELECT sentence, {premise_call} AS said FROM sentences),
            beliefs AS (
                SELECT sentence, {premise_belief} AS belief, said['request_digest'] AS digest,
                    said['error'] AS failure
                FROM sentence_said
            ),
            facts AS ({facts}),
            premises_of AS (
                SELECT placed.of_proof, place, placed.sentence, facts.fact_id, {believed} AS belief,
                    digest, failure
                FROM placed JOIN beliefs ON beliefs.sentence = placed.sentence
                LEFT JOIN facts ON facts.of_proof = placed.of_proof
                    AND facts.known = lower(trim(placed.sentence))
            ),
            folded AS (
                SELECT of_proof,
                    array_agg(named_struct(
                        'text', sentence,
                        'origin', CASE WHEN fact_id IS NULL THEN 'model' ELSE 'memory' END,
                        'fact_id', fact_id, 'belief', belief,
                        'believed', belief >= {threshold}) ORDER BY place) AS premises,
                    array_agg(belief ORDER BY place) AS beliefs,
                    array_agg(digest ORDER BY place) AS digests,
                    bool_and(belief >= {threshold}) AS all_believed,
                    first_value(failure ORDER BY place) FILTER (WHERE failure IS NOT NULL) AS failure
                FROM premises_of GROUP BY of_proof
            ),
            proof_said AS (
                SELECT proof_id AS of_proof, {proof_call} AS said
                FROM judged WHERE array_length(premises) > 0
            ),
            entailed AS (
                SELECT of_proof, {proof_belief} AS entailment, said['request_digest'] AS digest,
                    said['error'] AS failure
                FROM proof_said
            ),
            joined AS (
                SELECT {passed_on}{keep}, folded.premises AS premises_, beliefs, entailment, direct,
                    coalesce(all_believed, false) AS all_believed, {blocked} AS is_blocked,
                    array_concat(digests, make_array(entailed.digest, direct_digest))
                        AS request_digests,
                    coalesce(folded.failure, entailed.failure, direct_error) AS error
                FROM judged
                JOIN direct_of ON of_hypothesis = judged.hypothesis_id
                LEFT JOIN folded ON folded.of_proof = judged.proof_id
                LEFT JOIN entailed ON entailed.of_proof = judged.proof_id
            ),
            reasoned AS (
                SELECT *, CASE
                    WHEN premises_ IS NULL THEN 'no_premises'
                    WHEN NOT all_believed THEN 'premise_not_believed'
                    WHEN entailment < {threshold} THEN 'not_entailed'
                    WHEN is_blocked THEN 'blocked' END AS reject_reason
                FROM joined
            )
            SELECT {names}, premises_ AS premises, entailment, direct,
                entailment * list_product(beliefs) AS score,
                reject_reason IS NULL AS accepted, reject_reason, request_digests{kept}, error
            FROM reasoned",
            direct = self.direct()
        )
    }
}
