//! Groups: the combinations of a matrix and the names of their instances.

use crate::ids::{NAME_BYTES_MAX, is_name};
use crate::spec::code::Code;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::node::{Node, Value};
use crate::spec::params::Values;

/// Most instances of one matrix.
const INSTANCES_MAX: usize = 10_000;

/// One instance of a group.
pub struct Instance {
    /// The matrix values as texts; none for a group without a matrix.
    pub labels: Vec<String>,
    /// Full name of the instance's group.
    pub group: String,
    /// What `${…}` names inside the instance.
    pub values: Values,
}

/// All instances of the group `group` whose node is `node`.
pub fn instances(
    group: &str,
    node: &Node,
    values: &Values,
    path: &str,
    out: &mut Vec<Diagnostic>,
) -> Vec<Instance> {
    let whole = Instance { labels: Vec::new(), group: group.to_owned(), values: values.clone() };
    let Some(matrix) = node.get("matrix") else { return vec![whole] };
    let mut all = vec![whole];
    for (key, list) in matrix.entries() {
        let Value::Seq(items) = &list.value else { return Vec::new() };
        let extend = |instance: &Instance, item: &Node| Instance {
            labels: instance.labels.iter().cloned().chain([text(item)]).collect(),
            group: format!("{}_{}", instance.group, label(item)),
            values: instance.values.clone().with("matrix", &key.name, item.clone()),
        };
        all = all.iter().flat_map(|instance| items.iter().map(|item| extend(instance, item))).collect();
        if all.len() > INSTANCES_MAX {
            let message = format!("the matrix has more than {INSTANCES_MAX} combinations");
            out.push(Diagnostic::error(Code::WrongValue, matrix.span, path, message));
            return Vec::new();
        }
    }
    let mut seen = std::collections::HashSet::new();
    for instance in &all {
        let diagnostic = if !is_name(&instance.group) {
            let message = format!("the instance `{}` has no valid name", instance.group);
            let help = format!("names have at most {NAME_BYTES_MAX} characters: shorten the values");
            Diagnostic::error(Code::InvalidName, matrix.span, path, message).with_help(help)
        } else if !seen.insert(&instance.group) {
            let message = format!("two combinations share the name `{}`", instance.group);
            Diagnostic::error(Code::Duplicate, matrix.span, path, message)
        } else {
            continue;
        };
        out.push(diagnostic);
    }
    all
}

fn text(node: &Node) -> String {
    match &node.value {
        Value::Str(text) => text.clone(),
        other => Node::new(other.clone(), node.span).to_json().to_string(),
    }
}

/// The value as part of a name.
fn label(node: &Node) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    text(node).chars().map(keep).collect()
}
