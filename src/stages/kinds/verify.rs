//! `verify`: what a model believes of hypotheses, premises and proofs, and which proofs that leaves.
//!
//! Source: Entailer's verifiers (the angles `$valid$` and `$implied$`), their probabilities as the
//! released code computes them, and the score `s_e * Π s_d` of a one-step proof.

use arrow::datatypes::{DataType, SchemaRef};
use serde_json::json;

use crate::stages::diagnostics::{Diagnostics, mismatch};
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::queries::sql_kind::{self, Named, SqlKind, after_comma, is_texts, literal};
use proofmill_base::sentence::without_stop_sql;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::verify::{Probability, Verify};

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
/// What is said of a hypothesis.
const BELIEVED: [&str; 2] = ["direct", "request_digest"];
/// What is said of a proof.
const JUDGED: [&str; 7] =
    ["premises", "entailment", "direct", "score", "accepted", "reject_reason", "request_digests"];

impl Kind for Verify {
    fn traits(&self) -> Traits {
        Traits {
            version: 3,
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
        let of_proofs = input.index_of("premises").is_ok();
        let mut needed = if of_proofs {
            vec!["proof_id", "hypothesis_id", "hypothesis"]
        } else {
            vec!["hypothesis_id", "hypothesis"]
        };
        if self.question {
            needed.extend(["question", "answer"]);
        }
        let own: Vec<&str> = if of_proofs {
            PROOF.into_iter().chain(JUDGED).collect()
        } else {
            HYPOTHESIS.into_iter().chain(BELIEVED).collect()
        };
        let help = "name the table of a `prove` or a `hypothesize` stage";
        let mut valid = vec![
            sql_kind::expect_columns((KIND, "from"), &needed, &input, help, diagnostics),
            sql_kind::verifier(KIND, (&self.model, self.include_eos), engine, diagnostics),
            sql_kind::keep(KIND, &self.keep, &own, &input, diagnostics),
            if of_proofs { list((KIND, "from"), &input, diagnostics) } else { Some(()) },
        ];
        let mut named = Named::from([("judged".to_owned(), table)]);
        if let Some(blocked) = inputs.name("blocked") {
            let blocked = inputs.table_of(blocked)?;
            valid.push(entailments((KIND, "blocked"), &blocked.schema(), diagnostics));
            named.insert("blocked".to_owned(), blocked);
        }
        let mut scope = None;
        if let Some(memory) = inputs.name("memory") {
            let memory = inputs.table_of(memory)?;
            scope = facts((KIND, &input), &memory.schema(), diagnostics);
            valid.push(scope.map(drop));
            if !of_proofs {
                let message =
                    "hypotheses have no premises that a memory could contradict".to_owned();
                let help = "leave `memory` out, or name the table of a `prove` stage at `from`";
                let help = Some(help.to_owned());
                diagnostics.error(&[KIND, "memory"], Code::WrongValue, message, help);
                valid.push(None);
            }
            named.insert("memory".to_owned(), memory);
        }
        if valid.contains(&None) {
            return None;
        }
        let said = Corrections { blocked: named.contains_key("blocked"), memory: scope };
        let sql = query(self, &input, said);
        let query =
            SqlKind { kind: KIND, sql: &sql, tables: named, models: &[(&self.model, "model")] };
        query.prepare(engine, components, diagnostics)
    }
}

/// What users said, as tables beside the one that is judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Corrections {
    /// Whether there is a table `blocked`.
    pub blocked: bool,
    /// For which questions a fact of the table `memory` counts; `None` if there is no such table.
    pub memory: Option<FactScope>,
}

/// For which questions a fact counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactScope {
    All,
    /// That of its column `query_id`.
    Own,
}

/// The query over `judged`, of the columns `input`, and the tables of what users said.
pub fn query(settings: &Verify, input: &SchemaRef, said: Corrections) -> String {
    let there = |columns: &[&str]| -> Vec<String> {
        let columns = columns.iter().filter(|column| input.index_of(column).is_ok());
        columns.map(|column| (*column).to_owned()).collect()
    };
    let query = Query { settings, input, said };
    if input.index_of("premises").is_ok() {
        query.of_proofs(&there(&PROOF))
    } else {
        query.of_hypotheses(&there(&HYPOTHESIS))
    }
}

/// The columns of blocked entailments are there; a diagnostic in `[kind, key]` if not.
pub fn entailments(
    at: (&str, &str),
    schema: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let help = "blocked entailments have the columns `hypothesis` and `premises`";
    sql_kind::expect_columns(at, &["hypothesis", "premises"], schema, help, diagnostics)?;
    list(at, schema, diagnostics)
}

/// For which questions the facts of a memory count, by its columns; a diagnostic in `[kind, memory]` if there is no such
/// column, or if `judged` does not say its questions.
pub fn facts(
    (kind, judged): (&str, &SchemaRef),
    memory: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<FactScope> {
    diagnostics.text_column(&[kind, "memory"], "fact", memory)?;
    if memory.index_of("query_id").is_err() {
        return Some(FactScope::All);
    }
    diagnostics.text_column(&[kind, "memory"], "query_id", memory)?;
    let help = "without a column `query_id`, the facts of `memory` count for all questions";
    sql_kind::expect_columns((kind, "from"), &["question_id"], judged, help, diagnostics)?;
    Some(FactScope::Own)
}

/// The column `premises` is a list of strings.
fn list(
    (kind, key): (&str, &str),
    table: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let found = table.field_with_name("premises").ok()?.data_type();
    if is_texts(found) {
        return Some(());
    }
    let message = mismatch("column `premises`", "a list of strings", found);
    diagnostics.error(&[kind, key], Code::ColumnType, message, None);
    None
}

struct Query<'a> {
    settings: &'a Verify,
    input: &'a SchemaRef,
    said: Corrections,
}

impl Query<'_> {
    /// A call that says how likely the outputs `true` and `false` of a slot are.
    fn call(&self, slot: &str, prompt: &str) -> String {
        let options = json!({
            "include_eos": self.settings.include_eos, "on_error": "capture", "truncate": self.settings.truncate,
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
            Probability::Released => {
                format!("CASE WHEN {said}['best'] = 0 THEN {} ELSE 1.0 - {} END", p(1), p(2))
            }
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
            SELECT {passed}, direct_of.direct, direct_of.direct_digest AS request_digest{keep},
                direct_of.direct_error AS error
            FROM judged JOIN direct_of ON of_hypothesis = judged.hypothesis_id",
            direct = self.direct()
        )
    }

    /// Tables up to `contradicted` (of_proof, place, by_fact, denials): the premises, which are in `placed`, that
    /// contradict a fact, with the first of such facts and the keys of those that deny; and what `placed` needs of a
    /// proof's question.
    fn contradicted(&self) -> (String, &'static str) {
        let Some(scope) = self.said.memory else {
            let none = "contradicted AS (
                SELECT CAST(NULL AS VARCHAR) AS of_proof, CAST(NULL AS BIGINT) AS place,
                    CAST(NULL AS VARCHAR) AS by_fact, CAST(NULL AS VARCHAR[]) AS denials WHERE false)";
            return (none.to_owned(), "");
        };
        let (of_same_question, of_question) = match scope {
            FactScope::All => ("", ""),
            FactScope::Own => (
                "JOIN memory ON memory.fact = denials.fact AND memory.query_id = placed.question_id",
                ", question_id",
            ),
        };
        let tables = format!(
            "known_claims AS (
                SELECT fact, claimed['affirmed'] AS known_affirmed, claimed['denied'] AS known_denied
                FROM (SELECT fact, claim(fact) AS claimed FROM (SELECT DISTINCT fact FROM memory))
            ),
            sentence_claims AS (
                SELECT sentence, claimed['affirmed'] AS affirmed, claimed['denied'] AS denied
                FROM (
                    SELECT sentence, claim(sentence) AS claimed
                    FROM (SELECT DISTINCT sentence FROM placed))
            ),
            denials AS (
                SELECT sentence, fact, known_denied FROM sentence_claims
                JOIN known_claims ON known_affirmed = affirmed AND known_denied <> denied
            ),
            contradicted AS (
                SELECT placed.of_proof, placed.place, min(denials.fact) AS by_fact,
                    array_agg({fact_key}) FILTER (WHERE denials.known_denied) AS denials
                FROM placed JOIN denials ON denials.sentence = placed.sentence {of_same_question}
                GROUP BY placed.of_proof, placed.place
            )",
            fact_key = without_stop_sql("denials.fact")
        );
        (tables, of_question)
    }

    fn of_proofs(&self, passed: &[String]) -> String {
        let threshold = format!("CAST({:?} AS DOUBLE)", self.settings.threshold);
        let has_context = self
            .input
            .field_with_name("context")
            .is_ok_and(|field| matches!(field.data_type(), DataType::List(_)));
        let facts = if has_context {
            &format!(
                "SELECT of_proof, known, first_value(fact_id ORDER BY rank) AS fact_id
                FROM (SELECT proof_id AS of_proof, {} AS known, one['fact_id'] AS fact_id,
                        one['rank'] AS rank
                    FROM (SELECT proof_id, unnest(context) AS one FROM judged))
                GROUP BY of_proof, known",
                without_stop_sql("one['fact']")
            )
        } else {
            "SELECT CAST(NULL AS VARCHAR) AS of_proof, CAST(NULL AS VARCHAR) AS known,
                CAST(NULL AS VARCHAR) AS fact_id WHERE false"
        };
        // The premises of a refuted proof get no request; whether they entail the hypothesis is
        // requested only where another proof of it rests on the denial: what follows from both
        // rests on neither. `denying` has the premises of a hypothesis beside what denies them, a
        // row for each, so that its size grows with them and not with their pairs.
        let (believed, doubted) = if self.settings.trust_memory {
            (
                "CASE WHEN told.fact_id IS NULL OR told.is_refuted THEN beliefs.belief
                    ELSE CAST(1.0 AS DOUBLE) END",
                "told.fact_id IS NULL AND NOT told.is_refuted",
            )
        } else {
            ("beliefs.belief", "NOT told.is_refuted")
        };
        let (contradicted, of_question) = self.contradicted();
        let blocked = if self.said.blocked {
            "SELECT row_number() OVER () AS entry, hypothesis, premises FROM blocked"
        } else {
            "SELECT CAST(NULL AS BIGINT) AS entry, CAST(NULL AS VARCHAR) AS hypothesis,
                CAST(NULL AS VARCHAR[]) AS premises WHERE false"
        };
        let (sentence_key, hypothesis_key) =
            (without_stop_sql("sentence"), without_stop_sql("hypothesis"));
        let premise_call = self.call("valid", "'$valid$ ; $hypothesis$ = ' || sentence");
        let premise_belief = self.belief("said");
        let proof_call = self.call("implied", "prompt");
        let proof_belief = self.belief("said");
        let passed_on = &after_comma(passed, "judged.")[2..];
        let names = &after_comma(passed, "")[2..];
        let keep = after_comma(&self.settings.keep, "judged.");
        let kept = after_comma(&self.settings.keep, "");
        format!(
            "WITH {direct},
            placed AS (
                SELECT proof_id AS of_proof, hypothesis_id AS of_hypothesis, place,
                    premises[place] AS sentence{of_question}
                FROM (
                    SELECT proof_id, hypothesis_id, premises{of_question},
                        unnest(range(1, CAST(array_length(premises) AS BIGINT) + 1)) AS place
                    FROM judged WHERE array_length(premises) > 0)
            ),
            facts AS ({facts}),
            {contradicted},
            told AS (
                SELECT placed.of_proof, placed.of_hypothesis, placed.place, placed.sentence,
                    placed.known, facts.fact_id, contradicted.by_fact, contradicted.denials,
                    count(contradicted.by_fact) OVER (PARTITION BY placed.of_proof) > 0 AS is_refuted
                FROM (SELECT *, {sentence_key} AS known FROM placed) AS placed
                LEFT JOIN facts ON facts.of_proof = placed.of_proof AND facts.known = placed.known
                LEFT JOIN contradicted ON contradicted.of_proof = placed.of_proof
                    AND contradicted.place = placed.place
            ),
            sentences AS (SELECT DISTINCT sentence FROM told WHERE {doubted}),
            sentence_said AS (SELECT sentence, {premise_call} AS said FROM sentences),
            beliefs AS (
                SELECT sentence, {premise_belief} AS belief, said['request_digest'] AS digest,
                    said['error'] AS failure
                FROM sentence_said
            ),
            premises_of AS (
                SELECT told.of_proof, told.place, told.sentence, told.fact_id, told.by_fact,
                    told.is_refuted, {believed} AS belief, beliefs.digest, beliefs.failure
                FROM told LEFT JOIN beliefs ON beliefs.sentence = told.sentence AND {doubted}
            ),
            folded AS (
                SELECT of_proof,
                    array_agg(named_struct(
                        'text', sentence,
                        'origin', CASE WHEN fact_id IS NULL THEN 'model' ELSE 'memory' END,
                        'fact_id', fact_id, 'belief', belief,
                        'believed', belief >= {threshold}, 'contradicted_by', by_fact)
                        ORDER BY place) AS premises,
                    array_agg(belief ORDER BY place) AS beliefs,
                    array_agg(digest ORDER BY place) FILTER (WHERE digest IS NOT NULL) AS digests,
                    bool_and(belief >= {threshold}) AS all_believed, bool_or(is_refuted) AS is_refuted,
                    first_value(failure ORDER BY place) FILTER (WHERE failure IS NOT NULL) AS failure
                FROM premises_of GROUP BY of_proof
            ),
            denying AS (
                SELECT of_proof, of_hypothesis, is_refuted, denial, denial <> known AS is_denial,
                    bool_or(denial = known AND NOT is_refuted) OVER same AS is_used,
                    bool_or(denial <> known) OVER same AS denies
                FROM (SELECT of_proof, of_hypothesis, is_refuted, known,
                        unnest(array_concat(make_array(known), denials)) AS denial FROM told)
                WINDOW same AS (PARTITION BY of_hypothesis, denial)
            ),
            marked AS (
                SELECT of_proof, of_hypothesis, is_refuted,
                    array_agg(denial) FILTER (
                        WHERE is_used AND denies AND is_denial = is_refuted) AS denials
                FROM denying GROUP BY of_proof, of_hypothesis, is_refuted
            ),
            proof_asked AS (
                SELECT marked.*, '$implied$ ; $hypothesis$ = ' || judged.hypothesis
                        || ' ; $proof$ = [PREMISE] '
                        || array_to_string(judged.premises, ' [PREMISE] ') AS prompt
                FROM judged JOIN marked ON marked.of_proof = judged.proof_id
                WHERE NOT marked.is_refuted OR marked.denials IS NOT NULL
            ),
            proof_said AS (
                SELECT of_proof, of_hypothesis, is_refuted, denials, {proof_call} AS said
                FROM proof_asked
            ),
            answered AS (
                SELECT of_proof, of_hypothesis, is_refuted,
                    unnest(coalesce(denials, make_array(CAST(NULL AS VARCHAR)))) AS denial,
                    {proof_belief} AS entailment, said['request_digest'] AS digest,
                    said['error'] AS failure
                FROM proof_said
            ),
            entailed AS (
                SELECT of_proof, entailment, digest, failure, bool_or(is_turned) AS is_turned
                FROM (
                    SELECT *, denial IS NOT NULL AND bool_or(is_refuted AND entailment >= {threshold})
                        OVER (PARTITION BY of_hypothesis, denial) AS is_turned
                    FROM answered)
                GROUP BY of_proof, entailment, digest, failure
            ),
            blocked_entries AS ({blocked}),
            blocked_keys AS (
                SELECT hypothesis, string_agg(sentence, chr(31) ORDER BY sentence) AS premises
                FROM (SELECT entry, {hypothesis_key} AS hypothesis, {sentence_key} AS sentence
                    FROM (SELECT entry, hypothesis, unnest(premises) AS sentence
                        FROM blocked_entries))
                GROUP BY entry, hypothesis
            ),
            proof_keys AS (
                SELECT of_proof, string_agg(known, chr(31) ORDER BY known) AS premises
                FROM told GROUP BY of_proof
            ),
            blocked_proofs AS (
                SELECT DISTINCT proof_keys.of_proof
                FROM (SELECT proof_id, {hypothesis_key} AS hypothesis FROM judged) AS asked
                JOIN proof_keys ON proof_keys.of_proof = asked.proof_id
                JOIN blocked_keys ON blocked_keys.hypothesis = asked.hypothesis
                    AND blocked_keys.premises = proof_keys.premises
            ),
            joined AS (
                SELECT {passed_on}{keep}, folded.premises AS premises_, folded.beliefs AS beliefs_,
                    entailed.entailment AS entailment_, direct_of.direct AS direct_,
                    folded.all_believed AS all_believed_, folded.is_refuted AS is_refuted_,
                    entailed.is_turned AS is_turned_,
                    blocked_proofs.of_proof IS NOT NULL AS is_blocked_,
                    array_concat(
                        folded.digests,
                        CASE WHEN entailed.digest IS NOT NULL THEN make_array(entailed.digest) END,
                        CASE WHEN direct_of.direct_digest IS NOT NULL
                            THEN make_array(direct_of.direct_digest) END)
                        AS request_digests_,
                    coalesce(folded.failure, entailed.failure, direct_of.direct_error) AS error
                FROM judged
                JOIN direct_of ON of_hypothesis = judged.hypothesis_id
                LEFT JOIN folded ON folded.of_proof = judged.proof_id
                LEFT JOIN entailed ON entailed.of_proof = judged.proof_id
                LEFT JOIN blocked_proofs ON blocked_proofs.of_proof = judged.proof_id
            ),
            reasoned AS (
                SELECT *, CASE
                    WHEN premises_ IS NULL THEN 'no_premises'
                    WHEN is_refuted_ THEN 'premise_contradicted'
                    WHEN NOT all_believed_ THEN 'premise_not_believed'
                    WHEN entailment_ < {threshold} THEN 'not_entailed'
                    WHEN is_turned_ THEN 'premise_is_denial'
                    WHEN is_blocked_ THEN 'blocked' END AS reason_
                FROM joined
            )
            SELECT {names}, premises_ AS premises, entailment_ AS entailment, direct_ AS direct,
                CASE WHEN NOT is_refuted_ THEN entailment_ * list_product(beliefs_) END AS score,
                reason_ IS NULL AS accepted, reason_ AS reject_reason, request_digests_ AS request_digests{kept}, error
            FROM reasoned",
            direct = self.direct()
        )
    }
}
