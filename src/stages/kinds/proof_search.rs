//! `proof_search`: proofs of several steps, level by level, with the queries of `prove` and `verify`.
//!
//! Source: Entailer's search; what is published of it and what is not says `docs/specs/proofs.md`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::kinds::proof_search::grow::SearchPlan;
use crate::stages::kinds::proof_search::state::{REQUEST_COLUMNS, request_schema};
use crate::stages::kinds::prove;
use crate::stages::kinds::verify::{self, Corrections, FactScope};
use crate::stages::queries::prepared_query::Checker;
use crate::stages::queries::sql_kind;
use proofmill_pipeline::kinds::proof_search::ProofSearch;
use proofmill_pipeline::kinds::prove::Prove;
use proofmill_pipeline::kinds::verify::Verify;
use proofmill_pipeline::settings::StageRef;

mod forest;
mod grow;
mod judged;
mod state;
mod table;

const KIND: &str = "proof_search";
/// The columns behind those of `verify`.
const ADDED: [&str; 7] =
    ["depth", "root", "parent_proof_id", "premise", "searched_score", "kept", "drop_reason"];

impl Kind for ProofSearch {
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
        let input = |path: &str| match inputs.name(path) {
            Some(name) => Some(Some((name.clone(), inputs.table_of(name)?.schema()))),
            None => Some(None),
        };
        let (context, blocked, memory) = (input("context")?, input("blocked")?, input("memory")?);
        let help = "name the table of a `hypothesize` stage";
        let written = (self.free, self.forced);
        let mut valid = vec![
            sql_kind::expect_columns(
                (KIND, "from"),
                &REQUEST_COLUMNS,
                &hypotheses,
                help,
                diagnostics,
            ),
            sql_kind::verifier(KIND, (&self.model, self.include_eos), engine, diagnostics),
            diagnostics.options(&[KIND, "options"], self.options.check()),
            prove::something_written(KIND, written, context.is_some(), diagnostics),
        ];
        if let Some((_, schema)) = &context {
            valid.push(prove::recalled((KIND, "context"), schema, diagnostics));
        }
        if let Some((_, schema)) = &blocked {
            valid.push(verify::entailments((KIND, "blocked"), schema, diagnostics));
        }
        let mut said = Corrections { blocked: blocked.is_some(), memory: None };
        if let Some((_, schema)) = &memory {
            said.memory = verify::facts((KIND, &hypotheses), schema, diagnostics);
            valid.push(said.memory.map(drop));
        }
        if valid.contains(&None) {
            return None;
        }
        let has_context = context.is_some();
        let prove_hypotheses = prove::query(&prove_settings(self, self.question), has_context);
        let prove_premises = prove::query(&prove_settings(self, false), has_context);
        let requests = request_schema();
        let mut checker = Checker { kind: KIND, engine, diagnostics };
        let mut proving = vec![("hypotheses", &requests)];
        proving.extend(context.iter().map(|(_, schema)| ("recalled", schema)));
        let proofs = checker.columns(&prove_hypotheses, &proving)?;
        checker.columns(&prove_premises, &proving)?;
        let judge = verify::query(&verify_settings(self), &proofs, said);
        let mut judging = vec![("judged", &proofs)];
        judging.extend(blocked.iter().map(|(_, schema)| ("blocked", schema)));
        judging.extend(memory.iter().map(|(_, schema)| ("memory", schema)));
        let judged = checker.columns(&judge, &judging)?;
        let own: Vec<&str> =
            judged.fields().iter().map(|field| field.name().as_str()).chain(ADDED).collect();
        sql_kind::keep(KIND, &self.keep, &own, &hypotheses, diagnostics)?;
        components.set_model("model", &self.model, engine, diagnostics)?;
        let schema = output_schema(&judged, &hypotheses, &self.keep);
        let plan = SearchPlan {
            from,
            context,
            blocked,
            memory,
            by_question: has_context || said.memory == Some(FactScope::Own),
            hypotheses,
            depth: self.depth,
            keep: self.keep.clone(),
            prove_hypotheses,
            prove_premises,
            judge,
            schema: Arc::clone(&schema),
        };
        Some(Preparation::new(schema, plan))
    }
}

/// How a level is proved, as the settings of a stage of its own.
fn prove_settings(settings: &ProofSearch, question: bool) -> Prove {
    Prove {
        from: StageRef::default(),
        model: settings.model.clone(),
        context: settings.context.clone(),
        forced: settings.forced,
        facts_alone: false,
        free: settings.free,
        question,
        options: settings.options.clone(),
        keep: Vec::new(),
    }
}

/// How a level is judged, likewise.
fn verify_settings(settings: &ProofSearch) -> Verify {
    Verify {
        from: StageRef::default(),
        model: settings.model.clone(),
        threshold: settings.threshold,
        probability: settings.probability,
        include_eos: settings.include_eos,
        trust_memory: settings.trust_memory,
        question: false,
        blocked: settings.blocked.clone(),
        memory: settings.memory.clone(),
        truncate: settings.truncate,
        keep: Vec::new(),
    }
}

/// The columns of the table: those of `verify`, those of the search, those that rows keep.
fn output_schema(judged: &SchemaRef, hypotheses: &SchemaRef, keep: &[String]) -> SchemaRef {
    let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    let mut fields: Vec<Field> = judged.fields().iter().map(nullable).collect();
    fields.extend(ADDED.map(|name| {
        let (kind, nullable) = match name {
            "depth" => (DataType::Int64, false),
            "premise" => (DataType::Int64, true),
            "searched_score" => (DataType::Float64, true),
            "kept" => (DataType::Boolean, false),
            "root" => (DataType::Utf8, false),
            _ => (DataType::Utf8, true),
        };
        Field::new(name, kind, nullable)
    }));
    let kept = keep.iter().filter_map(|name| hypotheses.field_with_name(name).ok());
    fields.extend(kept.cloned());
    Arc::new(Schema::new(fields))
}
