//! [`Graph`] to [`Prepared`]: each stage's columns and plan, every mistake collected. Runs nothing.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use indexmap::IndexMap;

use crate::graph::{Graph, Role, Stage};
use proofmill_base::ids::StageName;
use crate::memory::Memories;
use crate::session::{Engine, StageTable};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::pipeline::Strict;
use proofmill_pipeline::stage::StageKind;
use crate::sqltext::Query;
use crate::stages::components::Components;
use crate::stages::place::Place;
use crate::stages::prepared::{Body, Prepared, PreparedStage};
use crate::stages::{
    asked, blend, check_plan, compare, decide, expected, fit, folders, gather, hypothesize, index,
    measure, memory, prove, query, read, report, retrieve, search, teach, verify, write,
};

/// What preparing a stage gives.
pub struct Outcome {
    pub schema: SchemaRef,
    pub body: Body,
    /// What its fingerprint covers, but for its inputs.
    pub components: Components,
    /// Rows expected, where that is known.
    pub rows_expected: Option<u64>,
}

/// The tables of the stages that are prepared already.
#[derive(Default)]
pub struct Tables(IndexMap<StageName, Arc<StageTable>>);

impl Tables {
    /// The table of a stage; `None` if the stage has a mistake.
    pub fn get(&self, stage: &StageName) -> Option<Arc<dyn TableProvider>> {
        self.0.get(stage).map(|table| Arc::clone(table) as Arc<dyn TableProvider>)
    }
}

/// Prepares all stages of `graph`. Those with a mistake, and those that need one, are left out.
pub fn prepare(
    mut graph: Graph,
    engine: &Engine,
    memories: &Memories,
    diagnostics: &mut Vec<Diagnostic>,
) -> Prepared {
    folders::check(&graph, diagnostics);
    let mut tables = Tables::default();
    let mut stages: IndexMap<StageName, PreparedStage> = IndexMap::new();
    let sources = Arc::clone(&graph.pipeline.sources);
    let models = &graph.pipeline.models;
    for (name, stage) in &mut graph.stages {
        // A syntax tree is large; from here on its plan stands for it.
        let query = Arc::get_mut(stage).and_then(|stage| stage.query.take());
        if stage.inputs.iter().any(|input| !stages.contains_key(&input.stage)) {
            continue;
        }
        let mut place = Place::new(stage, &sources, models, diagnostics);
        if !effective(stage, &mut place) {
            continue;
        }
        let known = Known { stages: &stages, tables: &tables, engine, memories };
        let outcome = one(stage, query.as_deref(), &known, &mut place);
        let Some(outcome) = outcome else { continue };
        let calls = place.calls().clone();
        let strict = graph.pipeline.strict.contains(&Strict::Order);
        expected::fixed_order(stage, query.as_deref(), &outcome, &stages, strict, &mut place);
        let table = StageTable::new(name.as_str(), Arc::clone(&outcome.schema)).expecting(
            expected::keys(stage, &outcome.schema),
            expected::rows(stage, &outcome, &stages),
        );
        let table = Arc::new(table);
        // A mistake in a check stops the pipeline, but not the look at what needs the stage.
        let volatile_checks = check_plan::validate(stage, &table, engine, &mut place);
        tables.0.insert(name.clone(), Arc::clone(&table));
        let mut components = outcome.components;
        components.set_calls(&calls);
        components.set("schema", schema_text(&outcome.schema));
        if let Some(partitions) = stage.spec.common.partitions {
            components.set("partitions", partitions);
        }
        let prepared = PreparedStage {
            stage: Arc::clone(stage),
            table,
            body: outcome.body,
            components,
            volatile: calls.volatile.into_iter().collect(),
            volatile_checks,
            rows_expected: outcome.rows_expected,
        };
        stages.insert(name.clone(), prepared);
    }
    Prepared { graph, stages }
}

/// A mistake for each common key that means nothing for this kind: nothing is ignored in silence.
fn effective(stage: &Stage, place: &mut Place<'_>) -> bool {
    let kind = stage.spec.kind.name();
    let idle: &[&str] = match &stage.spec.kind {
        StageKind::Read(_)
        | StageKind::Generate(_)
        | StageKind::Score(_)
        | StageKind::Embed(_)
        | StageKind::Hypothesize(_)
        | StageKind::Prove(_)
        | StageKind::Verify(_) => &[],
        StageKind::Sql(_)
        | StageKind::Retrieve(_)
        | StageKind::Blend(_)
        | StageKind::Decide(_)
        | StageKind::Gather(_) => &["on_error", "max_error_rate"],
        StageKind::Memory(_)
        | StageKind::Index(_)
        | StageKind::Search(_)
        | StageKind::Teach(_)
        | StageKind::Fit(_)
        | StageKind::Measure(_)
        | StageKind::Compare(_)
        | StageKind::Write(_)
        | StageKind::Report(_) => &["on_error", "max_error_rate", "partitions"],
    };
    // A stage that the program made stands on the settings of the one that needs it.
    let own = stage.spec.node.get(kind).is_some();
    let idle = idle.iter().filter(|key| own && stage.spec.node.get(key).is_some());
    let found: Vec<_> = idle.collect();
    for key in &found {
        let message = format!("`{key}` means nothing for `{kind}`");
        let help = "only kinds whose rows can fail, or that compute in parts, have it".to_owned();
        place.mistake(&[key], Code::UnknownKey, message, Some(help));
    }
    found.is_empty()
}

/// What a stage is prepared with.
struct Known<'a> {
    stages: &'a IndexMap<StageName, PreparedStage>,
    tables: &'a Tables,
    engine: &'a Engine,
    memories: &'a Memories,
}

fn one(
    stage: &Stage,
    query: Option<&Query>,
    known: &Known<'_>,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let Known { stages, tables, engine, memories } = *known;
    let mut components = Components::of_kind(&stage.spec.kind);
    match &stage.spec.kind {
        StageKind::Read(settings) => {
            components.set("settings.on_error", format!("{:?}", stage.spec.common.on_error));
            components.set("settings.max_error_rate", stage.spec.common.max_error_rate);
            read::prepare(settings, components, place)
        }
        StageKind::Memory(settings) => memory::prepare(settings, memories, components, place),
        StageKind::Sql(settings) => {
            query::prepare(stage, query?, settings, tables, engine, components, place)
        }
        StageKind::Index(settings) => index::prepare(stage, settings, tables, components, place),
        StageKind::Retrieve(settings) => {
            let memory = stages.get(stage.input(&Role::Memory)?)?;
            let memory = match &memory.stage.spec.kind {
                StageKind::Index(settings) => Some(settings),
                _ => None,
            };
            let threads = engine.limits().cores;
            retrieve::prepare(stage, settings, tables, memory, threads, components, place)
        }
        StageKind::Blend(settings) => {
            blend::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Generate(settings) => {
            let asked = asked::Asked::generate(settings);
            asked::prepare(stage, &asked, settings, tables, engine, components, place)
        }
        StageKind::Score(settings) => {
            let asked = asked::Asked::score(settings)?;
            asked::prepare(stage, &asked, settings, tables, engine, components, place)
        }
        StageKind::Embed(settings) => {
            let asked = asked::Asked::embed(settings);
            asked::prepare(stage, &asked, settings, tables, engine, components, place)
        }
        StageKind::Hypothesize(settings) => {
            hypothesize::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Prove(settings) => {
            prove::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Verify(settings) => {
            verify::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Decide(settings) => {
            decide::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Search(settings) => {
            search::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Teach(settings) => {
            teach::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Fit(settings) => {
            fit::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Measure(settings) => {
            measure::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Compare(settings) => {
            compare::prepare(stage, settings, tables, engine, components, place)
        }
        StageKind::Write(settings) => write::prepare(stage, settings, tables, components, place),
        StageKind::Report(settings) => report::prepare(stage, settings, tables, components, place),
        StageKind::Gather(settings) => {
            gather::prepare(stage, settings, tables, engine, components, place)
        }
    }
}

/// Columns as text: `name type`, with `?` where NULL may stand.
fn schema_text(schema: &SchemaRef) -> String {
    let column = |field: &Arc<arrow::datatypes::Field>| {
        let null = if field.is_nullable() { "?" } else { "" };
        format!("{} {}{null}", field.name(), field.data_type())
    };
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}
