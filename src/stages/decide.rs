//! `decide`: one answer a question. The rules for ties and for questions without a proof are those of
//! `docs/specs/proofs.md`.

use crate::graph::{Role, Stage};
use crate::session::Engine;
use crate::spec::kinds::decide::{Decide, WithoutProof};
use crate::stages::components::Components;
use crate::stages::lowered::{self, Named, after_comma, name};
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
    let columns = ["hypothesis_id", "question_id", "question", "choice", "label", "answer", "direct"];
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
    lowered::outcome(KIND, &sql, named, settings, &[], engine, components, place)
}

/// The query over `hypotheses` and, if there are some, `proofs`. Of equal scores the hypothesis wins that is believed more, then the first; of equal
/// proofs the one whose name comes first.
pub fn query(settings: &Decide, has_proofs: bool) -> String {
    let best = if has_proofs {
        "SELECT hypothesis_id, first_value(proof_id ORDER BY score DESC, proof_id) AS proof_id,
            max(score) AS score
        FROM proofs WHERE accepted GROUP BY hypothesis_id"
    } else {
        "SELECT hypothesis_id, CAST(NULL AS VARCHAR) AS proof_id, direct AS score FROM hypotheses"
    };
    let status = match (has_proofs, settings.without_proof) {
        (false, _) => "'direct'",
        (true, WithoutProof::Direct) => {
            "CASE WHEN proved > 0 THEN 'proved' ELSE 'fallback_direct' END"
        }
        (true, WithoutProof::None) => "CASE WHEN proved > 0 THEN 'proved' ELSE 'no_proof' END",
    };
    let answered = match (has_proofs, settings.without_proof) {
        (true, WithoutProof::None) => "proved > 0",
        (_, _) => "true",
    };
    let keep: String = settings
        .keep
        .iter()
        .map(|column| format!(", first_value({0} ORDER BY place) AS {0}", name(column)))
        .collect();
    let kept = after_comma(&settings.keep, "");
    format!(
        "WITH best AS ({best}),
        scored AS (
            SELECT hypotheses.*, best.proof_id, coalesce(best.score, 0.0) AS score_,
                best.score AS proof_score
            FROM hypotheses LEFT JOIN best ON best.hypothesis_id = hypotheses.hypothesis_id
        ),
        ranked AS (
            SELECT *, row_number() OVER (PARTITION BY question_id
                ORDER BY score_ DESC, direct DESC, choice) AS place
            FROM scored
        ),
        questions AS (
            SELECT question_id, count(proof_score) AS proved_,
                max(score_) FILTER (WHERE place = 2) AS second,
                first_value(question ORDER BY place) AS question,
                first_value(hypothesis_id ORDER BY place) AS hypothesis_id,
                first_value(label ORDER BY place) AS label,
                first_value(answer ORDER BY place) AS answer,
                first_value(score_ ORDER BY place) AS score,
                first_value(direct ORDER BY place) AS direct,
                first_value(proof_id ORDER BY place) AS proof_id{keep}
            FROM ranked GROUP BY question_id
        ),
        counted AS (SELECT *, {proved_of} AS proved FROM questions)
        SELECT question_id, question, hypothesis_id,
            CASE WHEN {answered} THEN label END AS label,
            CASE WHEN {answered} THEN answer END AS answer,
            {status} AS status, score, direct, score - second AS margin, proof_id, proved{kept}
        FROM counted ORDER BY question_id",
        proved_of = if has_proofs { "proved_" } else { "CAST(0 AS BIGINT)" },
    )

}
