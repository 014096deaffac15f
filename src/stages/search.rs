//! `search`: proofs of several steps, level by level, with the queries of `prove` and `verify`.
//!
//! Source: Entailer's search; what is published of it and what is not says `docs/specs/proofs.md`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::graph::{Role, Stage};
use crate::session::Engine;
use crate::stages::components::Components;
use crate::stages::lowered;
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};
use crate::stages::prepared::Body;
use crate::stages::query::set_model;
use crate::stages::repeated::Checker;
use crate::stages::{prove, verify};
use proofmill_base::ids::StageName;
use proofmill_pipeline::kinds::prove::Prove;
use proofmill_pipeline::kinds::search::Search;
use proofmill_pipeline::kinds::verify::Verify;

mod forest;
mod grow;
mod judged;
mod table;

pub use grow::{Tables as SearchTables, compute};

const KIND: &str = "search";
/// What a hypothesis is asked with.
const ASKED: [&str; 6] =
    ["hypothesis_id", "question_id", "question", "label", "answer", "hypothesis"];
/// The columns behind those of `verify`.
const ADDED: [&str; 7] =
    ["depth", "root", "parent_proof_id", "premise", "searched_score", "kept", "drop_reason"];

/// What a level asks, query by query.
#[derive(Debug)]
pub struct SearchPlan {
    /// The stage of the hypotheses.
    pub from: StageName,
    /// The stage of what was recalled, and its columns.
    pub context: Option<(StageName, SchemaRef)>,
    /// The stage of the blocked entailments, and its columns.
    pub blocked: Option<(StageName, SchemaRef)>,
    hypotheses: SchemaRef,
    depth: u32,
    keep: Vec<String>,
    prove_hypotheses: String,
    prove_premises: String,
    judge: String,
    schema: SchemaRef,
}

/// Checks the settings and plans a level.
pub fn prepare(
    stage: &Stage,
    settings: &Search,
    tables: &Tables,
    engine: &Engine,
    mut components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let from = stage.input(&Role::From)?.clone();
    let hypotheses = tables.get(&from)?.schema();
    let input = |role: &Role| match stage.input(role) {
        Some(name) => Some(Some((name.clone(), tables.get(name)?.schema()))),
        None => Some(None),
    };
    let (context, blocked) = (input(&Role::Context)?, input(&Role::Blocked)?);
    let help = "name the table of a `hypothesize` stage";
    let written = (settings.free, settings.forced);
    let mut sound = vec![
        lowered::expect_columns((KIND, "from"), &ASKED, &hypotheses, help, place),
        lowered::verifier(KIND, (&settings.model, settings.with_end), engine, place),
        place.options(&[KIND, "options"], settings.options.check()),
        prove::something_written(KIND, written, context.is_some(), place),
    ];
    if let Some((_, schema)) = &context {
        sound.push(prove::recalled((KIND, "context"), schema, place));
    }
    if let Some((_, schema)) = &blocked {
        sound.push(verify::entailments((KIND, "blocked"), schema, place));
    }
    if sound.contains(&None) {
        return None;
    }
    let has_context = context.is_some();
    let prove_hypotheses = prove::query(&prove_settings(settings, settings.question), has_context);
    let prove_premises = prove::query(&prove_settings(settings, false), has_context);
    let asked = asked_schema();
    let mut checker = Checker { kind: KIND, engine, place };
    let mut proving = vec![("hypotheses", &asked)];
    proving.extend(context.iter().map(|(_, schema)| ("recalled", schema)));
    let proofs = checker.columns(&prove_hypotheses, &proving)?;
    checker.columns(&prove_premises, &proving)?;
    let judge = verify::query(&verify_settings(settings), &proofs, blocked.is_some());
    let mut judging = vec![("judged", &proofs)];
    judging.extend(blocked.iter().map(|(_, schema)| ("blocked", schema)));
    let judged = checker.columns(&judge, &judging)?;
    let own: Vec<&str> =
        judged.fields().iter().map(|field| field.name().as_str()).chain(ADDED).collect();
    lowered::keep(KIND, &settings.keep, &own, &hypotheses, place)?;
    components.set_settings(settings);
    set_model("model", &settings.model, engine, &mut components, place)?;
    let schema = output_schema(&judged, &hypotheses, &settings.keep);
    let plan = SearchPlan {
        from,
        context,
        blocked,
        hypotheses,
        depth: settings.depth,
        keep: settings.keep.clone(),
        prove_hypotheses,
        prove_premises,
        judge,
        schema: Arc::clone(&schema),
    };
    Some(Outcome { schema, body: Body::Search(Box::new(plan)), components, rows_expected: None })
}

/// How a level is proved, as the settings of a stage of its own.
fn prove_settings(settings: &Search, question: bool) -> Prove {
    Prove {
        from: String::new(),
        model: settings.model.clone(),
        context: settings.context.clone(),
        forced: settings.forced,
        free: settings.free,
        question,
        options: settings.options.clone(),
        keep: Vec::new(),
    }
}

/// How a level is judged, likewise.
fn verify_settings(settings: &Search) -> Verify {
    Verify {
        from: String::new(),
        model: settings.model.clone(),
        threshold: settings.threshold,
        probability: settings.probability,
        with_end: settings.with_end,
        trust_memory: settings.trust_memory,
        question: false,
        blocked: settings.blocked.clone(),
        truncate: settings.truncate,
        keep: Vec::new(),
    }
}

/// Columns of what a level asks.
fn asked_schema() -> SchemaRef {
    let fields = ASKED.map(|name| Field::new(name, DataType::Utf8, false));
    Arc::new(Schema::new(fields.to_vec()))
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
