//! `select_answer`: one answer a question. The rules for ties and for questions without a proof are those of
//! `docs/specs/proofs.md`.

use arrow::datatypes::SchemaRef;

use crate::stages::kind::{Kind, Preparation, Preparing, Traits};
use crate::stages::queries::sql_kind::{self, Named, SqlKind, name};
use proofmill_base::sentence::without_stop_sql;
use proofmill_pipeline::kinds::select_answer::{SelectAnswer, WithoutProof};

const KIND: &str = "select_answer";
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
/// The column that the table has with `confirmed`.
const CONFIRMED: &str = "confirmed";

impl Kind for SelectAnswer {
    fn traits(&self) -> Traits {
        Traits::of_query(1)
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, components, diagnostics, .. } = context;
        let table = inputs.table("from")?;
        let input = table.schema();
        let proofs = match inputs.name("proofs") {
            Some(proofs) => Some(inputs.table_of(proofs)?),
            None => None,
        };
        let confirmed = match inputs.name("confirmed") {
            Some(confirmed) => Some(inputs.table_of(confirmed)?),
            None => None,
        };
        let own: Vec<&str> =
            COLUMNS.into_iter().chain(confirmed.is_some().then_some(CONFIRMED)).collect();
        let columns =
            ["hypothesis_id", "question_id", "question", "choice", "label", "answer", "direct"];
        let help = "name a `verify` stage whose `from` is a `hypothesize` stage";
        let mut valid = vec![
            sql_kind::expect_columns((KIND, "from"), &columns, &input, help, diagnostics),
            sql_kind::keep(KIND, &self.keep, &own, &input, diagnostics),
        ];
        if let Some(proofs) = &proofs {
            let columns = ["proof_id", "hypothesis_id", "score", "accepted"];
            let help =
                "name a `proof_search` stage, or a `verify` stage whose `from` is a `prove` stage";
            let schema = proofs.schema();
            valid.push(sql_kind::expect_columns(
                (KIND, "proofs"),
                &columns,
                &schema,
                help,
                diagnostics,
            ));
        }
        if let Some(confirmed) = &confirmed {
            let help = "confirmed answers have the columns `question` and `answer`";
            let (columns, schema) = (["question", "answer"], confirmed.schema());
            valid.push(sql_kind::expect_columns(
                (KIND, "confirmed"),
                &columns,
                &schema,
                help,
                diagnostics,
            ));
        }
        if valid.contains(&None) {
            return None;
        }
        let sql = query(self, proofs.as_ref().map(|proofs| Proofs::of(&proofs.schema())));
        let mut named = Named::from([("hypotheses".to_owned(), table)]);
        named.extend(proofs.map(|proofs| ("proofs".to_owned(), proofs)));
        named.extend(confirmed.map(|confirmed| ("confirmed".to_owned(), confirmed)));
        let query = SqlKind { kind: KIND, sql: &sql, tables: named, models: &[] };
        query.prepare(engine, components, diagnostics)
    }
}

/// What the proofs come from, which tells what a hypothesis without one scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proofs {
    /// A `verify` stage: nothing.
    Verified,
    /// A `proof_search` stage: the belief in it, which no proof of it was stronger than.
    Searched,
}

impl Proofs {
    /// By the columns of their table.
    fn of(schema: &SchemaRef) -> Self {
        let searched = ["kept", "searched_score"];
        match searched.iter().all(|column| schema.index_of(column).is_ok()) {
            true => Self::Searched,
            false => Self::Verified,
        }
    }
}

/// The query over `hypotheses` and, if there are some, `proofs` and `confirmed`. A hypothesis whose
/// answer was confirmed wins; of equal scores the one that is believed more, then the first; of equal
/// proofs the one whose name comes first.
pub fn query(settings: &SelectAnswer, proofs: Option<Proofs>) -> String {
    let (best, unproved) = match proofs {
        None => (
            "SELECT hypothesis_id, CAST(NULL AS VARCHAR) AS proof_id, direct AS score
            FROM hypotheses",
            "0.0",
        ),
        Some(Proofs::Verified) => (
            "SELECT hypothesis_id, first_value(proof_id ORDER BY score DESC, proof_id) AS proof_id,
                max(score) AS score
            FROM proofs WHERE accepted GROUP BY hypothesis_id",
            "0.0",
        ),
        Some(Proofs::Searched) => (
            "SELECT hypothesis_id,
                first_value(proof_id ORDER BY searched_score DESC, proof_id) AS proof_id,
                max(searched_score) AS score
            FROM proofs WHERE kept GROUP BY hypothesis_id",
            "hypotheses.direct",
        ),
    };
    let proved = if proofs.is_some() { "count(best_)" } else { "CAST(0 AS BIGINT)" };
    let (status, answered) = match (proofs, settings.without_proof) {
        (None, _) => ("'direct'", "true"),
        (Some(Proofs::Verified), WithoutProof::Direct) => {
            ("CASE WHEN proved_ > 0 THEN 'proved' ELSE 'fallback_direct' END", "true")
        }
        (Some(Proofs::Verified), WithoutProof::None) => {
            ("CASE WHEN proved_ > 0 THEN 'proved' ELSE 'no_proof' END", "proved_ > 0")
        }
        (Some(Proofs::Searched), WithoutProof::Direct) => {
            ("CASE WHEN proof_id IS NOT NULL THEN 'proved' ELSE 'direct' END", "true")
        }
        (Some(Proofs::Searched), WithoutProof::None) => (
            "CASE WHEN proved_ = 0 THEN 'no_proof' WHEN proof_id IS NOT NULL THEN 'proved'
                ELSE 'direct' END",
            "proved_ > 0",
        ),
    };
    let confirmed = Confirmed::of(settings);
    let status = confirmed.status(status);
    let answered = confirmed.answered(answered);
    let each = |part: &dyn Fn(usize, &String) -> String| -> String {
        settings.keep.iter().enumerate().map(|(i, column)| part(i, column)).collect()
    };
    // Inside the query, kept columns have names that nothing else has.
    let inward = each(&|i, column| format!(", hypotheses.{} AS kept_{i}_", name(column)));
    let across = each(&|i, _| format!(", first_value(kept_{i}_ ORDER BY place_) AS kept_{i}_"));
    let outward = each(&|i, column| format!(", kept_{i}_ AS {}", name(column)));
    format!(
        "WITH best AS ({best}){table},
        scored AS (
            SELECT hypotheses.question_id, hypotheses.question, hypotheses.hypothesis_id,
                hypotheses.choice, hypotheses.label, hypotheses.answer, hypotheses.direct,
                best.proof_id, best.score AS best_, coalesce(best.score, {unproved}) AS score{confirmed_in}{inward}
            FROM hypotheses LEFT JOIN best ON best.hypothesis_id = hypotheses.hypothesis_id{join}
        ),
        ranked AS (
            SELECT *, row_number() OVER (PARTITION BY question_id
                ORDER BY {first}score DESC, direct DESC, choice) AS place_
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
                first_value(proof_id ORDER BY place_) AS proof_id{confirmed_across}{across}
            FROM ranked GROUP BY question_id
        )
        SELECT question_id, question,
            CASE WHEN {answered} THEN hypothesis_id END AS hypothesis_id,
            CASE WHEN {answered} THEN label END AS label,
            CASE WHEN {answered} THEN answer END AS answer,
            {status} AS status, score,
            CASE WHEN {answered} THEN direct END AS direct,
            score - second_ AS margin, proof_id, proved_ AS proved{confirmed_out}{outward}
        FROM questions ORDER BY question_id",
        table = confirmed.table,
        join = confirmed.join,
        first = confirmed.first,
        confirmed_in = confirmed.inward,
        confirmed_across = confirmed.across,
        confirmed_out = confirmed.outward,
    )
}

/// What confirmed answers add to the query; nothing without them.
#[derive(Default)]
struct Confirmed {
    table: String,
    join: String,
    first: &'static str,
    inward: String,
    across: &'static str,
    outward: String,
}

impl Confirmed {
    fn of(settings: &SelectAnswer) -> Self {
        if settings.confirmed.is_none() {
            return Self::default();
        }
        let (of_question, question) =
            (without_stop_sql("question"), without_stop_sql("hypotheses.question"));
        let (answer, confirmed) =
            (without_stop_sql("hypotheses.answer"), without_stop_sql("told.told_"));
        Self {
            table: format!(
                ",
        told AS (
            SELECT {of_question} AS asked_, first_value(answer ORDER BY answer) AS told_
            FROM confirmed WHERE answer IS NOT NULL GROUP BY {of_question}
        )"
            ),
            join: format!(" LEFT JOIN told ON told.asked_ = {question}"),
            first: "is_told_ DESC, ",
            inward: format!(
                ", told.told_ AS told_, coalesce({answer} = {confirmed}, false) AS is_told_"
            ),
            across: ", first_value(told_ ORDER BY place_) AS told_, \
                     first_value(is_told_ ORDER BY place_) AS is_told_",
            outward: format!(", told_ AS {CONFIRMED}"),
        }
    }

    fn status(&self, without: &str) -> String {
        match self.join.is_empty() {
            true => without.to_owned(),
            false => format!("CASE WHEN is_told_ THEN 'confirmed' ELSE {without} END"),
        }
    }

    fn answered(&self, without: &str) -> String {
        match self.join.is_empty() {
            true => without.to_owned(),
            false => format!("is_told_ OR {without}"),
        }
    }
}
