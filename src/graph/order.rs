//! An order in which stages can run, or the cycle that forbids one.

use indexmap::IndexMap;

use crate::graph::build::Stage;
use crate::ids::StageName;
use crate::spec::code::Code;
use crate::spec::diagnostic::Diagnostic;

/// The stages with every stage after those it needs, otherwise in the given order. Stages on a
/// cycle, and those that need one, are left out and one cycle is reported.
pub fn topological(
    mut stages: IndexMap<StageName, Stage>,
    diagnostics: &mut Vec<Diagnostic>,
) -> IndexMap<StageName, Stage> {
    let mut waiting: Vec<usize> = Vec::with_capacity(stages.len());
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); stages.len()];
    for (i, stage) in stages.values().enumerate() {
        let mut needs: Vec<usize> =
            stage.inputs.iter().filter_map(|input| stages.get_index_of(&input.stage)).collect();
        needs.sort_unstable();
        needs.dedup();
        waiting.push(needs.len());
        needs.into_iter().for_each(|need| dependents[need].push(i));
    }
    let mut ready: std::collections::BTreeSet<usize> =
        (0..stages.len()).filter(|i| waiting[*i] == 0).collect();
    let mut position = vec![usize::MAX; stages.len()];
    let mut next = 0;
    while let Some(i) = ready.pop_first() {
        position[i] = next;
        next += 1;
        for dependent in &dependents[i] {
            waiting[*dependent] -= 1;
            if waiting[*dependent] == 0 {
                ready.insert(*dependent);
            }
        }
    }
    if next < stages.len() {
        let stuck: Vec<bool> = position.iter().map(|p| *p == usize::MAX).collect();
        diagnostics.push(cycle(&stages, &stuck));
    }
    let order: IndexMap<StageName, usize> =
        stages.keys().cloned().zip(position.iter().copied()).collect();
    stages.retain(|name, _| order[name] != usize::MAX);
    stages.sort_by(|a, _, b, _| order[a].cmp(&order[b]));
    stages
}

/// One cycle among the stages that are stuck.
fn cycle(stages: &IndexMap<StageName, Stage>, stuck: &[bool]) -> Diagnostic {
    let next = |i: usize| {
        let inputs = stages[i].inputs.iter();
        inputs.filter_map(|input| stages.get_index_of(&input.stage)).find(|need| stuck[*need])
    };
    let first = stuck.iter().position(|stuck| *stuck).unwrap_or(0);
    let mut path = vec![first];
    let start = loop {
        let Some(need) = next(path[path.len() - 1]) else { break 0 };
        if let Some(seen) = path.iter().position(|i| *i == need) {
            break seen;
        }
        path.push(need);
    };
    let names: Vec<_> = path[start..]
        .iter()
        .chain([&path[start]])
        .map(|i| format!("`{}`", stages[*i].spec.name))
        .collect();
    let spec = &stages[path[start]].spec;
    let message = if names.len() == 2 {
        format!("stage {} needs itself", names[0])
    } else {
        format!("stages wait for each other: {}", names.join(" needs "))
    };
    Diagnostic::error(Code::Cycle, spec.key, spec.path.clone(), message)
}
