//! An order in which stages can run, or the cycles that forbid one.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::graph::stage::{Input, Stage};
use proofmill_base::ids::StageName;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;

/// The stages with every stage after those it needs, otherwise in the given order. Stages on a
/// cycle, and those that need one, are left out; every cycle is reported, of those that share a
/// stage one.
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
    let mut ready: BTreeSet<usize> = (0..stages.len()).filter(|i| waiting[*i] == 0).collect();
    let mut position = vec![usize::MAX; stages.len()];
    let mut done = vec![false; stages.len()];
    let mut next = 0;
    let mut valid = true;
    loop {
        while let Some(i) = ready.pop_first() {
            done[i] = true;
            // What needs a cycle has no position either.
            if valid || stages[i].inputs.iter().all(|input| has_position(&stages, &position, input))
            {
                position[i] = next;
                next += 1;
            }
            for dependent in &dependents[i] {
                waiting[*dependent] -= 1;
                if waiting[*dependent] == 0 && !done[*dependent] {
                    ready.insert(*dependent);
                }
            }
        }
        if done.iter().all(|done| *done) {
            break;
        }
        // Go on as if the cycle were none, so that others are found too.
        valid = false;
        let members = cycle(&stages, &done);
        let found = describe(&stages, &members);
        // Instances of a matrix share their places.
        if !diagnostics.iter().any(|d| d.code == Code::Cycle && d.span == found.span) {
            diagnostics.push(found);
        }
        for i in members {
            done[i] = true;
            for dependent in &dependents[i] {
                waiting[*dependent] -= 1;
                if waiting[*dependent] == 0 && !done[*dependent] {
                    ready.insert(*dependent);
                }
            }
        }
        ready.retain(|i| !done[*i]);
    }
    let order: IndexMap<StageName, usize> =
        stages.keys().cloned().zip(position.iter().copied()).collect();
    stages.retain(|name, _| order[name] != usize::MAX);
    stages.sort_by(|a, _, b, _| order[a].cmp(&order[b]));
    stages
}

/// True if what `input` names, as far as it is here, has a position.
fn has_position(stages: &IndexMap<StageName, Stage>, position: &[usize], input: &Input) -> bool {
    stages.get_index_of(&input.stage).is_none_or(|need| position[need] != usize::MAX)
}

/// One cycle among the stages that are not done.
fn cycle(stages: &IndexMap<StageName, Stage>, done: &[bool]) -> Vec<usize> {
    let next = |i: usize| {
        let inputs = stages[i].inputs.iter();
        inputs.filter_map(|input| stages.get_index_of(&input.stage)).find(|need| !done[*need])
    };
    let first = done.iter().position(|done| !done).unwrap_or(0);
    let mut path = vec![first];
    let start = loop {
        let Some(need) = next(path[path.len() - 1]) else { break 0 };
        if let Some(seen) = path.iter().position(|i| *i == need) {
            break seen;
        }
        path.push(need);
    };
    path.split_off(start)
}

/// A cycle as a diagnostic, at the stage of it that the file declares first.
fn describe(stages: &IndexMap<StageName, Stage>, members: &[usize]) -> Diagnostic {
    let first = members.iter().enumerate().min_by_key(|(_, i)| **i).map_or(0, |(at, _)| at);
    let names: Vec<_> = members[first..]
        .iter()
        .chain(&members[..=first])
        .map(|i| format!("`{}`", stages[*i].spec.name))
        .collect();
    let spec = &stages[members[first]].spec;
    let (message, help) = if members.len() == 1 {
        (format!("stage {} depends on itself", names[0]), None)
    } else {
        let message = format!("stages depend on each other: {}", names.join(" needs "));
        (message, Some("remove one of these dependencies".to_owned()))
    };
    Diagnostic::error(Code::Cycle, spec.key, spec.path.clone(), message).with_help(help)
}
