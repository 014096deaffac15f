//! `teach`: questions are answered in turn, each with the memory that the corrections before it left.
//!
//! Source: TeachMe, section 4.1 (the simulated user). A round of several questions is answered with
//! one memory; a round of one is the paper's sequence.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::kinds::prove;
use crate::stages::kinds::select_answer;
use crate::stages::kinds::select_answer::Proofs;
use crate::stages::kinds::teach::walk::TeachPlan;
use crate::stages::kinds::verify::{self, Corrections, FactScope};
use crate::stages::queries::prepared_query::Checker;
use crate::stages::queries::sql_kind::{self, after_comma, inside};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::prove::Prove;
use proofmill_pipeline::kinds::select_answer::SelectAnswer;
use proofmill_pipeline::kinds::teach::{Feedback, Teach};
use proofmill_pipeline::kinds::verify::Verify;
use proofmill_pipeline::settings::StageRef;

mod memory;
mod walk;

const KIND: &str = "teach";
/// The columns of a lesson before those of the answer.
const BEFORE: [&str; 3] = ["place", "round", "memory"];
/// The columns of a lesson behind those of the answer.
const AFTER: [&str; 5] = ["correct", "taught", "fact_id", "fact", "proofs"];

impl Kind for Teach {
    fn traits(&self) -> Traits {
        Traits {
            version: 3,
            rows_can_fail: false,
            has_partitions: false,
            settings: Counted::All,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, components, diagnostics, .. } = context;
        let from = inputs.name("from")?.clone();
        let hypotheses = inputs.table_of(&from)?.schema();
        let memory = inputs.name("memory").cloned();
        let columns =
            ["hypothesis_id", "question_id", "question", "choice", "label", "answer", "hypothesis"];
        let help = "name the table of a `hypothesize` stage";
        let own: Vec<&str> =
            BEFORE.into_iter().chain(AFTER).chain(select_answer::COLUMNS).collect();
        let mut valid = vec![
            sql_kind::expect_columns((KIND, "from"), &columns, &hypotheses, help, diagnostics),
            sql_kind::verifier(KIND, (&self.model, self.include_eos), engine, diagnostics),
            sql_kind::keep(KIND, &self.keep, &own, &hypotheses, diagnostics),
            diagnostics.options(&[KIND, "options"], self.options.check()),
            prove::something_written(KIND, (self.free, self.forced), true, diagnostics),
            prove::facts_begin(KIND, self.facts_alone, self.forced, diagnostics),
        ];
        if let Some(memory) = &memory {
            let schema = inputs.table_of(memory)?.schema();
            valid.push(diagnostics.text_column(&[KIND, "memory"], "fact", &schema).map(drop));
        }
        if valid.contains(&None) {
            return None;
        }
        let steps = Steps::of(self);
        let mut checker = Checker { kind: KIND, engine, diagnostics };
        let proofs_sql = prove::query(&steps.prove, true);
        let proofs = checker.columns(
            &proofs_sql,
            &[("hypotheses", &hypotheses), ("recalled", &memory::schema())],
        )?;
        let scope = self.reject_contradicted.then_some(FactScope::All);
        let said = Corrections { blocked: false, memory: scope };
        let judge_proofs = verify::query(&steps.verify, &proofs, said);
        let facts = memory::facts_schema();
        let mut judging = vec![("judged", &proofs)];
        judging.extend(scope.map(|_| ("memory", &facts)));
        let judged = checker.columns(&judge_proofs, &judging)?;
        let judge_hypotheses = verify::query(&steps.judge, &hypotheses, Corrections::default());
        let beliefs = checker.columns(&judge_hypotheses, &[("judged", &hypotheses)])?;
        let decide_sql = select_answer::query(&steps.decide, Some(Proofs::Verified));
        let answers =
            checker.columns(&decide_sql, &[("hypotheses", &beliefs), ("proofs", &judged)])?;
        let correct = sql_kind::expression(
            &[KIND, "correct"],
            &self.correct,
            &answers,
            engine,
            checker.diagnostics,
        );
        let fact =
            sql_kind::text(&[KIND, "fact"], &self.fact, &answers, engine, checker.diagnostics);
        if correct? != DataType::Boolean {
            let message = "`correct` must be a boolean".to_owned();
            checker.diagnostics.error(&[KIND, "correct"], Code::SqlType, message, None);
            return None;
        }
        fact?;
        let lessons = lessons(self);
        let lesson_columns =
            checker.columns(&lessons, &[("answers", &answers), ("proofs", &judged)])?;
        components.set_model("model", &self.model, engine, diagnostics)?;
        let schema = lesson_schema(&lesson_columns);
        let plan = TeachPlan {
            from,
            memory,
            settings: self.clone(),
            hypotheses,
            prove: proofs_sql,
            judge_proofs,
            judge_hypotheses,
            decide: decide_sql,
            lessons,
            schema: Arc::clone(&schema),
        };
        Some(Preparation::new(schema, plan))
    }
}

/// The settings of the steps of a round, as those of stages of their own.
struct Steps {
    prove: Prove,
    verify: Verify,
    judge: Verify,
    decide: SelectAnswer,
}

impl Steps {
    fn of(settings: &Teach) -> Self {
        let verify = Verify {
            from: StageRef::default(),
            model: settings.model.clone(),
            threshold: settings.threshold,
            probability: settings.probability,
            include_eos: settings.include_eos,
            trust_memory: settings.trust_memory,
            question: false,
            blocked: None,
            memory: None,
            truncate: None,
            keep: Vec::new(),
        };
        Self {
            prove: Prove {
                from: StageRef::default(),
                model: settings.model.clone(),
                context: Some(StageRef::default()),
                forced: settings.forced,
                facts_alone: settings.facts_alone,
                free: settings.free,
                question: settings.question,
                options: settings.options.clone(),
                keep: Vec::new(),
            },
            judge: Verify { keep: settings.keep.clone(), ..verify.clone() },
            verify,
            decide: SelectAnswer {
                from: StageRef::default(),
                proofs: Some(StageRef::default()),
                confirmed: None,
                without_proof: settings.without_proof,
                keep: settings.keep.clone(),
            },
        }
    }
}

/// What becomes of the answers of a round: right or wrong, what the user says, which proofs there
/// were.
fn lessons(settings: &Teach) -> String {
    let Teach { correct, fact, .. } = settings;
    let (correct, fact) = (inside(correct), inside(fact));
    let taught = match settings.feedback {
        Feedback::Wrong => "NOT correct_ AND coalesce(trim(said_), '') <> ''",
        Feedback::All => "coalesce(trim(said_), '') <> ''",
    };
    let answer = after_comma(&select_answer::COLUMNS.map(str::to_owned), "told.");
    let keep = after_comma(&settings.keep, "told.");
    format!(
        "WITH told AS (
            SELECT *, coalesce({correct}, false) AS correct_, {fact} AS said_ FROM answers
        ),
        tried AS (
            SELECT question_id AS of_question, array_agg(named_struct(
                'proof_id', proof_id, 'hypothesis_id', hypothesis_id, 'strategy', strategy,
                'forced_fact_id', forced_fact_id, 'premises', premises, 'entailment', entailment,
                'direct', direct, 'score', score, 'accepted', accepted,
                'reject_reason', reject_reason) ORDER BY proof_id) AS tried_
            FROM proofs GROUP BY question_id
        )
        SELECT {answer}{keep}, correct_ AS correct,
            {taught} AS taught, CASE WHEN {taught} THEN said_ END AS fact, tried_ AS proofs
        FROM told LEFT JOIN tried ON of_question = told.question_id",
        answer = &answer[2..],
    )
}

/// The columns of lessons from those of [`lessons`].
fn lesson_schema(columns: &SchemaRef) -> SchemaRef {
    let number = |name: &str| Arc::new(Field::new(name, DataType::Int64, false));
    let id = Arc::new(Field::new("fact_id", DataType::Utf8, true));
    let fields = BEFORE.map(number).into_iter().chain(columns.fields().iter().cloned()).chain([id]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
