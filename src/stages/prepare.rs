//! [`Graph`] to [`Prepared`]: each stage's columns and plan, every diagnostic collected. Runs nothing.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use indexmap::IndexMap;
use proofmill_base::ids::StageName;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::kinds::OnError;
use proofmill_pipeline::pipeline::{Common, Strict};

use crate::graph::{Graph, Stage};
use crate::session::{Engine, StageTable};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::fingerprint::Components;
use crate::stages::kind::{Inputs, Preparing, Traits};
use crate::stages::kinds::behaviour;
use crate::stages::plan::{Prepared, PreparedStage};
use crate::stages::stored_tables::FromStore;
use crate::stages::{checks, expected, folders, pinned};

/// Prepares all stages of `graph`. Those with an error, and those that need one, are left out.
pub fn prepare(
    mut graph: Graph,
    engine: &Engine,
    from_store: &FromStore,
    out: &mut Vec<Diagnostic>,
) -> Prepared {
    folders::check(&graph, out);
    let mut stages: IndexMap<StageName, PreparedStage> = IndexMap::new();
    let sources = Arc::clone(&graph.pipeline.sources);
    let models = &graph.pipeline.models;
    let strict = graph.pipeline.strict.contains(&Strict::Order);
    for (name, stage) in &mut graph.stages {
        // A syntax tree is large; from here on its plan stands for it.
        let query = Arc::get_mut(stage).and_then(|stage| stage.query.take());
        let query = query.as_deref();
        if stage.inputs.iter().any(|input| !stages.contains_key(&input.stage)) {
            continue;
        }
        let (kind, kind_name) = (behaviour(&stage.spec.kind), stage.spec.kind.name());
        let traits = kind.traits();
        let mut context = Preparing {
            inputs: Inputs { stage, stages: &stages },
            query,
            engine,
            from_store,
            components: Components::of_kind(&stage.spec.kind, traits.version, traits.settings),
            diagnostics: Diagnostics::new(stage, &sources, models, out),
            files: Vec::new(),
        };
        if !common_keys_apply(stage, traits, &mut context.diagnostics) {
            continue;
        }
        let pinned = from_store.pinned.get(name);
        let prepared = match pinned {
            Some(artifact) => pinned::prepare(artifact, &mut context),
            None => kind.prepare(&mut context),
        };
        let Some(preparation) = prepared else {
            context.diagnostics.expect_error();
            continue;
        };
        let Preparing { inputs, mut components, mut diagnostics, files, .. } = context;
        if !is_storable(&preparation.schema, kind_name, &mut diagnostics) {
            continue;
        }
        let calls = diagnostics.calls().clone();
        expected::fixed_order(inputs, query, &preparation, strict, &mut diagnostics);
        let table = StageTable::new(name.as_str(), Arc::clone(&preparation.schema))
            .expecting(expected::keys(stage, &preparation), expected::rows(inputs, &preparation));
        let table = Arc::new(table);
        // An error in a check stops the pipeline, but not the look at what needs the stage.
        let volatile_checks = checks::validate(stage, &table, engine, &mut diagnostics);
        // Those of a table that is pinned are complete.
        if pinned.is_none() {
            components.set_calls(&calls);
            components.set("schema", schema_text(&preparation.schema));
            if let Some(partitions) = stage.spec.common.partitions {
                components.set("partitions", partitions);
            }
            set_gate(&mut components, &stage.spec.common);
        }
        let prepared = PreparedStage {
            stage: Arc::clone(stage),
            table,
            plan: preparation.plan,
            export: preparation.export,
            components,
            files,
            asking: preparation
                .asking
                .or_else(|| preparation.query.clone().filter(|_| !calls.models.is_empty())),
            query: preparation
                .query
                .filter(|_| calls.volatile.is_empty() && calls.models.is_empty()),
            models: calls.models,
            volatile: calls.volatile.into_iter().collect(),
            unrepeatable: preparation.unrepeatable,
            volatile_checks,
            rows_expected: preparation.rows_expected,
        };
        stages.insert(name.clone(), prepared);
    }
    Prepared { graph, stages }
}

/// What lets a table with failed rows pass counts where it is not the default: a narrower limit
/// does not get the table that a wider one let through.
fn set_gate(components: &mut Components, common: &Common) {
    if common.on_error != OnError::default() {
        components.set("settings.on_error", format!("{:?}", common.on_error));
    }
    if common.max_error_rate != 0.0 {
        components.set("settings.max_error_rate", common.max_error_rate);
    }
}

/// An error for each common key that means nothing for this kind: nothing is ignored in silence.
fn common_keys_apply(stage: &Stage, traits: Traits, diagnostics: &mut Diagnostics<'_>) -> bool {
    let kind = stage.spec.kind.name();
    let errors = ["on_error", "max_error_rate"].into_iter().filter(|_| !traits.rows_can_fail);
    let idle = errors.chain((!traits.has_partitions).then_some("partitions"));
    // A stage that the program made stands on the settings of the one that needs it.
    let own = stage.spec.node.get(kind).is_some();
    let found: Vec<_> = idle.filter(|key| own && stage.spec.node.get(key).is_some()).collect();
    for key in &found {
        let message = format!("`{key}` has no effect on `{kind}` stages");
        let help =
            "only kinds whose rows can fail, or that compute in partitions, accept it".to_owned();
        diagnostics.error(&[key], Code::UnknownKey, message, Some(help));
    }
    found.is_empty()
}

/// An error for each column that no file can hold.
fn is_storable(schema: &SchemaRef, kind: &str, diagnostics: &mut Diagnostics<'_>) -> bool {
    let is_open = |field: &&Arc<Field>| holds_interval(field.data_type());
    let found: Vec<_> = schema.fields().iter().filter(is_open).collect();
    for field in &found {
        let message =
            format!("the column `{}` is an interval, which no table can hold", field.name());
        let help = "give its seconds, `date_part('epoch', …)`, or its text, `CAST(… AS VARCHAR)`";
        diagnostics.error(&[kind], Code::SqlType, message, Some(help.to_owned()));
    }
    found.is_empty()
}

fn holds_interval(kind: &DataType) -> bool {
    match kind {
        DataType::Interval(_) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => holds_interval(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_interval(field.data_type())),
        _ => false,
    }
}

/// Columns as text: `name type`, with `?` where NULL may stand.
fn schema_text(schema: &SchemaRef) -> String {
    let column = |field: &Arc<Field>| {
        let null = if field.is_nullable() { "?" } else { "" };
        format!("{} {}{null}", field.name(), field.data_type())
    };
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}
