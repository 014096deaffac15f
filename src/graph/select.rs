//! Parts of a graph: `stage`, `+stage` (with all it needs), `stage+` (with all that need it).

use std::collections::HashSet;

use crate::graph::build::Graph;
use proofmill_base::ids::StageName;
use proofmill_base::suggest;

/// A name in a selection that no stage has.
#[derive(Debug, thiserror::Error)]
#[error("there is no stage `{name}` to select")]
pub struct UnknownSelection {
    pub name: String,
    pub help: Option<String>,
}

/// The stages that `selection` names: terms separated by commas or spaces.
pub fn select(graph: &Graph, selection: &str) -> Result<HashSet<StageName>, UnknownSelection> {
    let mut selected = HashSet::new();
    for term in selection.split([',', ' ']).filter(|term| !term.is_empty()) {
        let name = term.trim_matches('+');
        let Some(name) = graph.stages.keys().find(|stage| stage.as_str() == name) else {
            let help = suggest::help(name, graph.stages.keys().map(StageName::as_str));
            return Err(UnknownSelection { name: name.to_owned(), help });
        };
        selected.insert(name.clone());
        if term.starts_with('+') {
            selected.extend(upstream(graph, [name.clone()]));
        }
        if term.ends_with('+') {
            let mut reached = HashSet::from([name.clone()]);
            for (name, stage) in &graph.stages {
                if stage.inputs.iter().any(|input| reached.contains(&input.stage)) {
                    reached.insert(name.clone());
                }
            }
            selected.extend(reached);
        }
    }
    Ok(selected)
}

/// All that the given stages need, and they themselves.
pub fn upstream(graph: &Graph, of: impl IntoIterator<Item = StageName>) -> HashSet<StageName> {
    let mut needed: HashSet<StageName> = of.into_iter().collect();
    for (name, stage) in graph.stages.iter().rev() {
        if needed.contains(name) {
            needed.extend(stage.inputs.iter().map(|input| input.stage.clone()));
        }
    }
    needed
}
