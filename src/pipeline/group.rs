//! The combinations of a group's or model's matrix, or the turns of a repeated group, and the names of their instances.

use std::collections::{HashMap, HashSet};

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::{Node, Value};
use crate::params::Values;
use crate::validate::join;
use proofmill_base::ids::NAME_BYTES_MAX;

/// Most instances of one matrix.
const INSTANCES_MAX: usize = 10_000;

/// The number of a turn, from 1: `${repeat.turn}`, and the first column of a union over turns.
pub const TURN: &str = "turn";

/// One instance of a group, or a model of a matrix.
pub struct MatrixInstance {
    /// The matrix values as texts, or the number of the turn; none for a group that is not repeated.
    pub labels: Vec<String>,
    /// Full name of the instance's group, or of the model.
    pub name: String,
    /// What `${…}` names inside the instance.
    pub values: Values,
}

/// All instances of the group or model `group` whose node is `node`.
pub fn instances(
    group: &str,
    node: &Node,
    values: &Values,
    path: &str,
    out: &mut Vec<Diagnostic>,
) -> Vec<MatrixInstance> {
    let whole =
        MatrixInstance { labels: Vec::new(), name: group.to_owned(), values: values.clone() };
    let mut all = vec![whole];
    for Axis { namespace, name, items } in axes(node) {
        let path = join(&join(path, namespace), name);
        let mut labels: HashMap<String, &Node> = HashMap::new();
        let mut collision = false;
        for (i, item) in items.iter().enumerate() {
            let label = label(item);
            if let Some(first) = labels.insert(label.clone(), item) {
                let message = match (text(first), text(item)) {
                    (a, b) if a == b => format!("duplicate value `{b}`"),
                    (a, b) => format!("`{b}` and `{a}` both make the name `{group}_{label}`"),
                };
                let path = join(&path, &i.to_string());
                out.push(Diagnostic::error(Code::Duplicate, item.span, path, message));
                collision = true;
            }
        }
        if collision {
            return Vec::new();
        }
        let extend = |instance: &MatrixInstance, item: &Node| MatrixInstance {
            labels: instance.labels.iter().cloned().chain([text(item)]).collect(),
            name: format!("{}_{}", instance.name, label(item)),
            values: instance.values.clone().with(namespace, name, item.clone()),
        };
        let longest = all.iter().map(|instance| instance.name.len()).max().unwrap_or(0);
        for (i, item) in items.iter().enumerate() {
            if longest <= NAME_BYTES_MAX && longest + 1 + label(item).len() > NAME_BYTES_MAX {
                let message = format!(
                    "with this value, the name `{group}_…` has more than {NAME_BYTES_MAX} characters"
                );
                let help = "use a short value here; a query can look up the long one".to_owned();
                let path = join(&path, &i.to_string());
                out.push(
                    Diagnostic::error(Code::InvalidName, item.span, path, message).with_help(help),
                );
                collision = true;
            }
        }
        if collision {
            return Vec::new();
        }
        all = all
            .iter()
            .flat_map(|instance| items.iter().map(|item| extend(instance, item)))
            .collect();
        if all.len() > INSTANCES_MAX {
            let message = format!("the matrix has more than {INSTANCES_MAX} combinations");
            out.push(Diagnostic::error(Code::WrongValue, node.span, path, message));
            return Vec::new();
        }
    }
    let mut seen = HashSet::new();
    for instance in &all {
        if !seen.insert(&instance.name) {
            let message = format!("two combinations share the name `{}`", instance.name);
            out.push(Diagnostic::error(Code::Duplicate, node.span, path, message));
        }
    }
    all
}

/// A list of values that a group is repeated over.
struct Axis<'a> {
    /// Where `${…}` finds the value: `matrix` or `repeat`.
    namespace: &'static str,
    name: &'a str,
    items: Vec<Node>,
}

fn axes(node: &Node) -> Vec<Axis<'_>> {
    let mut axes = Vec::new();
    for (key, list) in node.get("matrix").map(Node::entries).unwrap_or_default() {
        let Value::Seq(items) = &list.value else { continue };
        axes.push(Axis { namespace: "matrix", name: &key.name, items: items.clone() });
    }
    let turns = node.get("repeat").and_then(|repeat| repeat.get("turns"));
    if let Some(Node { value: Value::Int(turns), span, .. }) = turns {
        let items = (1..=*turns).map(|turn| Node::new(Value::Int(turn), *span)).collect();
        axes.push(Axis { namespace: "repeat", name: TURN, items });
    }
    axes
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
