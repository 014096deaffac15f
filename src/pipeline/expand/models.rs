//! Models on their way into a pipeline: one, or one for each combination of a matrix.

use indexmap::IndexMap;

use super::{Expander, without};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::group::{self, MatrixInstance};
use crate::interpolate::interpolate;
use crate::models::Model;
use crate::node::{Key, Node, Value};
use crate::params::Values;
use crate::validate::join;
use proofmill_base::ids::is_name;
use proofmill_base::secret;

impl Expander<'_> {
    /// The models of a pipeline file that have no diagnostic.
    pub(super) fn models(
        &mut self,
        tree: &Node,
        values: &Values,
    ) -> IndexMap<String, (Model, Node)> {
        let mut models = IndexMap::new();
        let Some(holder) = tree.get("models") else { return models };
        if !self.is_mapping(holder, "models") {
            return models;
        }
        for (key, node) in holder.entries() {
            let path = join("models", &key.name);
            if !is_name(&key.name) {
                let message = format!("`{}` is not a name", key.name);
                let help =
                    "use a lower-case letter, then up to 63 lower-case letters, digits or `_`";
                let diagnostic = Diagnostic::error(Code::InvalidName, key.span, path, message);
                self.diagnostics.push(diagnostic.with_help(Some(help.to_owned())));
                continue;
            }
            for MatrixInstance { name, values, .. } in self.combinations(key, node, values, &path) {
                if models.contains_key(&name) {
                    let message = format!("a model `{name}` already exists");
                    let diagnostic =
                        Diagnostic::error(Code::Duplicate, key.span, path.clone(), message);
                    self.diagnostics.push(diagnostic);
                    continue;
                }
                let own = node.get("matrix").map(|_| without(node, &["matrix"]));
                let own = own.as_ref().unwrap_or(node);
                let node = interpolate(own, &values, &self.sources, &path, &mut self.diagnostics);
                if let Some(model) = self.model(&node, &path) {
                    models.insert(name, (model, node));
                }
            }
        }
        models
    }

    /// What the entry `key` declares: itself, or one model for each combination of its matrix.
    fn combinations(
        &mut self,
        key: &Key,
        node: &Node,
        values: &Values,
        path: &str,
    ) -> Vec<MatrixInstance> {
        let matrix = node.entries().iter().filter(|(key, _)| key.name == "matrix").cloned();
        let head = Node::new(Value::Map(matrix.collect()), node.span);
        let head = interpolate(&head, values, &self.sources, path, &mut self.diagnostics);
        let is_matrix = head.get("matrix").is_some();
        if is_matrix && (!self.check("ModelMatrix", &head, &[], path) || head.is_unresolved()) {
            return Vec::new();
        }
        let names = head.get("matrix").map(Node::entries).unwrap_or_default();
        if !names.iter().all(|(key, _)| self.name(key, &join(path, "matrix"))) {
            return Vec::new();
        }
        group::instances(&key.name, &head, values, path, &mut self.diagnostics)
    }

    fn model(&mut self, node: &Node, path: &str) -> Option<Model> {
        self.check("Model", node, &[], path);
        self.address(node, path);
        // What is not typed has been reported against the schema.
        let model = serde_json::from_value::<Model>(node.to_json()).ok()?;
        let beside = if model.path.is_some() { "path" } else { "url" };
        for idle in model.idle() {
            let message = format!("`{idle}` has no effect with `{beside}`");
            let (span, path) = (node.at(&[idle]).span, join(path, idle));
            self.diagnostics.push(Diagnostic::error(Code::UnknownKey, span, path, message));
        }
        if model.prices.is_none() && model.budget.is_some_and(|budget| budget.money.is_some()) {
            let message = "a `money` budget requires `prices`".to_owned();
            let help = "add prices per million tokens: `prices: { prompt: 0.15, completion: 0.6 }`";
            let (span, path) = (node.at(&["budget", "money"]).span, join(path, "budget.money"));
            let diagnostic = Diagnostic::error(Code::MissingKey, span, path, message);
            self.diagnostics.push(diagnostic.with_help(help.to_owned()));
        }
        Some(model)
    }

    /// A diagnostic if an endpoint's address has something in it that would be kept and printed, or has a
    /// query, which it cannot have.
    fn address(&mut self, model: &Node, path: &str) {
        let Some(url) = model.get("url") else { return };
        let text = url.as_str().unwrap_or_default();
        let query = || text.contains(['?', '#']).then_some("has a query or a fragment");
        let Some(why) = secret::of_address(text).or_else(query) else { return };
        let help = "addresses are stored with the answers and shown: put the key in an environment \
                    variable, and name it in `api_key_env`";
        self.secret(url.span, join(path, "url"), why, help);
    }
}
