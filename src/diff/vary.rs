//! What two runs were made of that differs, and may not: everything that a gate's `vary` does not name, and what its `same`
//! does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use indexmap::IndexMap;
use proofmill_base::ids::StageName;
use proofmill_catalog::lineage::{INPUT, inputs_of};
use proofmill_pipeline::gate::{Gate, GatePlace};
use proofmill_pipeline::source::Sources;
use proofmill_store::Artifact;

use crate::diff::runs::Side;
use crate::gate::evidence::Difference;
use crate::stages::plan::Prepared;

/// Of the parts of a fingerprint, the versions of the program.
const VERSIONS: [&str; 3] = ["engine", "kind.version", "sql.version"];
/// Parts that follow from others, and that which tells runs of a stage apart that cannot be cached.
const FOLLOW: [&str; 2] = ["schema", "run"];

/// The candidate's pipeline, for the names of models and for places.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub prepared: &'a Prepared,
    pub sources: &'a Sources,
}

/// Parts of the fingerprint of a stage, and its inputs.
struct MadeOf<'a> {
    parts: &'a BTreeMap<String, String>,
    inputs: Vec<StageName>,
}

/// The same of all stages, in the order of the run.
struct Made<'a>(IndexMap<StageName, MadeOf<'a>>);

impl<'a> Made<'a> {
    /// Of a run that has ended.
    fn of_run(side: &'a Side) -> Self {
        let names: HashMap<_, _> =
            side.stages.iter().map(|(name, (_, found))| (found.record.fingerprint, name)).collect();
        let mut made = IndexMap::new();
        for (name, (_, found)) in &side.stages {
            let record: &Artifact = &found.record;
            let inputs = inputs_of(record).into_iter();
            let inputs = inputs.filter_map(|(_, input)| names.get(&input).map(|it| (*it).clone()));
            made.insert(
                name.clone(),
                MadeOf { parts: &record.components, inputs: inputs.collect() },
            );
        }
        Self(made)
    }

    /// Of a run that has not begun.
    fn of_text(prepared: &'a Prepared) -> Self {
        let mut made = IndexMap::new();
        for (name, stage) in &prepared.stages {
            let inputs = stage.stage.inputs.iter().filter(|input| input.role.label().is_some());
            let inputs = inputs.map(|input| input.stage.clone()).collect();
            made.insert(name.clone(), MadeOf { parts: stage.components.map(), inputs });
        }
        Self(made)
    }

    fn parts(&self, stage: &StageName) -> Option<&'a BTreeMap<String, String>> {
        self.0.get(stage).map(|made| made.parts)
    }

    /// These stages and what they were made from, in the order of the run.
    fn upstream(&self, wanted: impl Iterator<Item = StageName>) -> Vec<StageName> {
        let mut next: Vec<StageName> = wanted.collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = next.pop() {
            if let Some(made) = self.0.get(&name)
                && seen.insert(name)
            {
                next.extend(made.inputs.iter().cloned());
            }
        }
        self.0.keys().filter(|name| seen.contains(*name)).cloned().collect()
    }
}

/// The pipelines of a baseline and a candidate, as far as they can be prepared.
pub type Texts<'a> = [Option<Text<'a>>; 2];

/// An item of `vary` or `same` that neither run has: its place, and what is wrong.
pub type UnknownItem = (GatePlace, String);

/// What differs between a run and another one that has ended, upstream of the metrics of a gate, and may not.
///
/// # Errors
///
/// If the gate lists something that neither has.
pub fn of_runs(
    gate: &Gate,
    sides: [&Side; 2],
    texts: Texts<'_>,
) -> Result<Vec<Difference>, UnknownItem> {
    differences(gate, &Made::of_run(sides[0]), &Made::of_run(sides[1]), texts)
}

/// The same between a run and another one that has not begun.
///
/// # Errors
///
/// As [`of_runs`].
pub fn of_text(
    gate: &Gate,
    baseline: &Side,
    before: Option<Text<'_>>,
    text: Text<'_>,
) -> Result<Vec<Difference>, UnknownItem> {
    let (old, new) = (Made::of_run(baseline), Made::of_text(text.prepared));
    differences(gate, &old, &new, [before, Some(text)])
}

/// The first item of a gate that names nothing in either run.
fn unknown(gate: &Gate, made: [&Made<'_>; 2], texts: Texts<'_>) -> Option<UnknownItem> {
    let vary = gate.vary.iter().flatten().enumerate();
    let vary = vary.map(|(at, item)| (GatePlace::Vary(at), item));
    let same = gate.same.iter().enumerate().map(|(at, item)| (GatePlace::Same(at), item));
    let is_stage = |item: &str| {
        let mut stages = made.iter().flat_map(|made| made.0.keys());
        stages.any(|stage| names_stage(item, stage, "") || is_setting(item, stage))
    };
    let is_model = |model: &str| {
        let mut known = texts.iter().map(|text| {
            text.as_ref().map(|text| text.prepared.graph.pipeline.models.contains_key(model))
        });
        // Of a pipeline that cannot be prepared, it is unknown.
        known.any(|known| known.unwrap_or(true))
    };
    vary.chain(same).find_map(|(place, item)| {
        let is_known = match item.strip_prefix("models.") {
            Some(model) => is_model(model),
            None => item == "versions" || is_stage(item),
        };
        (!is_known).then(|| (place, format!("neither run has `{item}`")))
    })
}

/// Whether `stages.NAME.SETTING` is about a stage.
fn is_setting(item: &str, stage: &StageName) -> bool {
    item.strip_prefix("stages.")
        .and_then(|path| path.strip_prefix(stage.as_str()))
        .is_some_and(|rest| rest.starts_with('.'))
}

fn differences(
    gate: &Gate,
    baseline: &Made<'_>,
    candidate: &Made<'_>,
    texts: Texts<'_>,
) -> Result<Vec<Difference>, UnknownItem> {
    if let Some(unknown) = unknown(gate, [baseline, candidate], texts) {
        return Err(unknown);
    }
    let wanted = || gate.metrics.iter().map(|metric| metric.stage.clone());
    let mut all = Vec::new();
    for name in candidate.upstream(wanted()) {
        all.extend(of_stage(&name, baseline.parts(&name), candidate.parts(&name), gate, texts));
    }
    let gone = baseline.upstream(wanted()).into_iter();
    for name in gone.filter(|name| candidate.parts(name).is_none()) {
        all.extend(of_stage(&name, baseline.parts(&name), None, gate, texts));
    }
    Ok(all)
}

fn of_stage(
    stage: &StageName,
    old: Option<&BTreeMap<String, String>>,
    new: Option<&BTreeMap<String, String>>,
    gate: &Gate,
    texts: Texts<'_>,
) -> Vec<Difference> {
    // Who asks anew says so, and changes nothing else.
    let is_asking = |name: &str| !name.starts_with("settings.") && name.ends_with(".generation");
    let counts = |name: &&String| {
        !name.starts_with(INPUT) && !FOLLOW.contains(&name.as_str()) && !is_asking(name)
    };
    let is_kind = |name: &&String| name.as_str() == "kind";
    // Which functions a query calls follows from the query.
    let is_called = |name: &str, old: Option<&String>, new: Option<&String>| {
        name.starts_with("function.") && old.is_none() != new.is_none()
    };
    let names: BTreeSet<&String> = match (old, new) {
        (Some(old), Some(new)) => old.keys().chain(new.keys()).filter(counts).collect(),
        // Of a stage that only one of them has, its kind stands for all of it.
        (one, other) => {
            one.or(other).into_iter().flat_map(BTreeMap::keys).filter(is_kind).collect()
        }
    };
    let both = names.into_iter().map(|name| {
        let (old, new) = (old.and_then(|it| it.get(name)), new.and_then(|it| it.get(name)));
        (name.as_str(), old.cloned(), new.cloned())
    });
    let changed =
        both.filter(|(name, old, new)| old != new && !is_called(name, old.as_ref(), new.as_ref()));
    // A part of a model whose name is unknown may not differ.
    let names = |items: &[String], component: &str, if_unknown: bool| {
        items.iter().any(|item| {
            names_stage(item, stage, component)
                || item == "versions" && is_version(component)
                || item.strip_prefix("models.").is_some_and(|model| {
                    names_model(model, stage, component, texts).unwrap_or(if_unknown)
                })
        })
    };
    let may = |component: &str| {
        gate.vary.as_ref().is_none_or(|vary| names(vary, component, false))
            && !names(&gate.same, component, true)
    };
    let left = changed.filter(|(component, _, _)| !may(component));
    let difference = |(component, old, new): (&str, _, _)| Difference {
        stage: stage.clone(),
        component: component.to_owned(),
        old,
        new,
        place: place(stage, component, texts[1]),
    };
    left.map(difference).collect()
}

fn is_version(component: &str) -> bool {
    VERSIONS.contains(&component) || component.starts_with("function.")
}

/// Whether `stages.NAME` or `stages.NAME.SETTING` names a part of a stage: its own name or that of its group.
fn names_stage(item: &str, stage: &StageName, component: &str) -> bool {
    let Some(path) = item.strip_prefix("stages.") else { return false };
    let stage = stage.as_str();
    let group = stage.split_once('.').map(|(group, _)| group);
    if path == stage || Some(path) == group {
        return true;
    }
    let Some(setting) = path.strip_prefix(stage).and_then(|rest| rest.strip_prefix('.')) else {
        return false;
    };
    let setting = format!("settings.{setting}");
    component
        .strip_prefix(&setting)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether a part of a stage says what the model `model` is, in either run; `None` if that cannot be known.
fn names_model(model: &str, stage: &StageName, component: &str, texts: Texts<'_>) -> Option<bool> {
    if component.starts_with("settings.") {
        return Some(false);
    }
    // A stage that is written in SQL names its models in its parts.
    if component.starts_with(&format!("model.{model}.")) {
        return Some(true);
    }
    if !component.starts_with("model.") && !component.contains(".model.") {
        return Some(false);
    }
    let asks = |text: &Text<'_>| {
        let stage = text.prepared.stages.get(stage);
        stage.is_some_and(|stage| stage.models.contains(model))
    };
    if texts.iter().flatten().any(asks) {
        return Some(true);
    }
    texts.iter().all(Option::is_some).then_some(false)
}

/// Where the candidate's pipeline says it.
fn place(stage: &StageName, component: &str, text: Option<Text<'_>>) -> Option<String> {
    let Text { prepared, sources } = text?;
    let spec = &prepared.stages.get(stage)?.stage.spec;
    let span = match component.strip_prefix("settings.") {
        Some(setting) => {
            let steps: Vec<&str> =
                setting.split(['.', '[', ']']).filter(|step| !step.is_empty()).collect();
            spec.node.at(&steps).span
        }
        None => spec.key,
    };
    let (line, column) = sources.position(span);
    Some(format!("{}:{line}:{column}", sources.get(span.source).name))
}
