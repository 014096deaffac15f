//! `decide`: one answer a question. The rules for ties and for questions without a proof are those of
//! `docs/specs/proofs.md`.

use crate::graph::{Role, Stage};
use crate::session::Engine;
use crate::spec::kinds::decide::{Decide, WithoutProof};
use crate::stages::components::Components;
use crate::stages::lowered::{self, Lowered, Named, name};
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};

const KIND: &str = "decide";
/// The columns of the table, but for those that rows keep.
pub const COLUMNS: [&str; 11] = [
    "question_id",
    "question",
    "hypothesis_id",
    "label",
    "answer",
    "status",
    "score",
    "direct",
    "margin",
    "proof_id",
    "proved",
];

/// Checks the settings and plans the query.
pub fn prepare(
    stage: &Stage,
    settings: &Decide,
    tables: &Tables,
    engine: &Engine,
    components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let table = tables.get(stage.input(&Role::From)?)?;
    let input = table.schema();
    let proofs = match stage.input(&Role::Proofs) {
        Some(proofs) => Some(tables.get(proofs)?),
        None => None,
    };
    let columns =
        ["hypothesis_id", "question_id", "question", "choice", "label", "answer", "direct"];
    let help = "name a `verify` stage whose `from` is a `hypothesize` stage";
    let mut sound = vec![
        lowered::expect_columns((KIND, "from"), &columns, &input, help, place),
        lowered::keep(KIND, &settings.keep, &COLUMNS, &input, place),
    ];
    if let Some(proofs) = &proofs {
        let columns = ["proof_id", "hypothesis_id", "score", "accepted"];
        let help = "name a `verify` stage whose `from` is a `prove` stage";
        let schema = proofs.schema();
        sound.push(lowered::expect_columns((KIND, "proofs"), &columns, &schema, help, place));
    }
    if sound.contains(&None) {
        return None;
    }
    let sql = query(settings, proofs.is_some());
    let mut named = Named::from([("hypotheses".to_owned(), table)]);
    named.extend(proofs.map(|proofs| ("proofs".to_owned(), proofs)));
    let query = Lowered { kind: KIND, sql: &sql, tables: named, models: &[] };
    query.outcome(settings, &[], engine, components, place)
}

/// The query over `hypotheses` and, if there are some, `proofs`. Of equal scores the hypothesis wins
/// that is believed more, then the first; of equal proofs the one whose name comes first.
pub fn query(settings: &Decide, has_proofs: bool) -> String {
    let best = if has_proofs {
        "SELECT hypothesis_id, first_value(proof_id ORDER BY score DESC, proof_id) AS proof_id,
            max(score) AS score
        FROM proofs WHERE accepted GROUP BY hypothesis_id"
    } else {
        "SELECT hypothesis_id, CAST(NULL AS VARCHAR) AS proof_id, direct AS score FROM hypotheses"
    };
    let proved = if has_proofs { "count(best_)" } else { "CAST(0 AS BIGINT)" };
    let (status, answered) = match (has_proofs, settings.without_proof) {
        (false, _) => ("'direct'", "true"),
        (true, WithoutProof::Direct) => {
            ("CASE WHEN proved_ > 0 THEN 'proved' ELSE 'fallback_direct' END", "true")
        }
        (true, WithoutProof::None) => {
            ("CASE WHEN proved_ > 0 THEN 'proved' ELSE 'no_proof' END", "proved_ > 0")
        }
    };
    let each = |part: &dyn Fn(usize, &String) -> String| -> String {
        settings.keep.iter().enumerate().map(|(i, column)| part(i, column)).collect()
    };
    // Inside the query, kept columns have names that nothing else has.
    let inward = each(&|i, column| format!(", hypotheses.{} AS kept_{i}_", name(column)));
    let across = each(&|i, _| format!(", first_value(kept_{i}_ ORDER BY place_) AS kept_{i}_"));
    let outward = each(&|i, column| format!(", kept_{i}_ AS {}", name(column)));
    format!(
        "WITH best AS ({best}),
        scored AS (
            SELECT hypotheses.question_id, hypotheses.question, hypotheses.hypothesis_id,
                hypotheses.choice, hypotheses.label, hypotheses.answer, hypotheses.direct,
                best.proof_id, best.score AS best_, coalesce(best.score, 0.0) AS score{inward}
            FROM hypotheses LEFT JOIN best ON best.hypothesis_id = hypotheses.hypothesis_id
        ),
        ranked AS (
            SELECT *, row_number() OVER (PARTITION BY question_id
                ORDER BY score DESC, direct DESC, choice) AS place_
            FROM scored
        ),
        questions AS (
            SELECT question_id, {proved} AS proved_,
                max(score) FILTER (WHERE place_ = 2) AS second_,
                first_value(question ORDER BY place_) AS question,
                first_value(hypothesis_id ORDER BY place_) AS hypothesis_id,
                first_value(label ORDER BY place_) AS label,
                first_value(answer ORDER BY place_) AS answer,
                first_value(score ORDER BY place_) AS score,
                first_value(direct ORDER BY place_) AS direct,
                first_value(proof_id ORDER BY place_) AS proof_id{across}
            FROM ranked GROUP BY question_id
        )
        SELECT question_id, question,
            CASE WHEN {answered} THEN hypothesis_id END AS hypothesis_id,
            CASE WHEN {answered} THEN label END AS label,
            CASE WHEN {answered} THEN answer END AS answer,
            {status} AS status, score,
            CASE WHEN {answered} THEN direct END AS direct,
            score - second_ AS margin, proof_id, proved_ AS proved{outward}
        FROM questions ORDER BY question_id"
    )
}
