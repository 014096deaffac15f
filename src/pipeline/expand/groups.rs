//! Groups on their way into a pipeline: repeated over a matrix or in turns, and inlined from templates.

use indexmap::IndexMap;

use super::{Expander, without};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::group::{self, MatrixInstance};
use crate::interpolate::interpolate;
use crate::kinds::{CarriedRows, Carry, StageKind};
use crate::node::{Key, Node, Value};
use crate::params::{self, Given, Setter, Values};
use crate::pipeline::{Common, Matrix, StageSpec, full_group};
use crate::settings::{Expression, StageRef};
use crate::validate::join;

/// Deepest nesting of templates and groups.
const GROUP_DEPTH_MAX: usize = 8;

impl Expander<'_> {
    pub(super) fn group(
        &mut self,
        key: &Key,
        node: &Node,
        values: &Values,
        scope: &[String],
        path: &str,
        open: &mut Vec<String>,
    ) {
        let head = self.group_head(node, values, path);
        if !self.check("Group", &head, &[], path) {
            return;
        }
        if scope.len() >= GROUP_DEPTH_MAX {
            let message = format!("groups are nested more than {GROUP_DEPTH_MAX} deep");
            self.diagnostics.push(Diagnostic::error(Code::Template, key.span, path, message));
            return;
        }
        let matrix = head.get("matrix").map(Node::entries).unwrap_or_default();
        let repeat = head.get("repeat");
        let carry = repeat.map(|repeat| repeat.at(&["carry"]).entries()).unwrap_or_default();
        let path_of = |list: &str| list.split('.').fold(path.to_owned(), |at, key| join(&at, key));
        if !matrix.iter().all(|(key, _)| self.name(key, &path_of("matrix")))
            || !carry.iter().all(|(key, _)| self.name(key, &path_of("repeat.carry")))
        {
            return;
        }
        if let (Some(repeat), false) = (repeat, matrix.is_empty()) {
            let message = "`repeat` and `matrix` cannot be combined".to_owned();
            let help = "put one of them in a group inside the other".to_owned();
            let diagnostic =
                Diagnostic::error(Code::NotExactlyOne, repeat.span, path_of("repeat"), message);
            self.diagnostics.push(diagnostic.with_help(help));
            return;
        }
        let name = full_group(scope, &key.name);
        let instances = group::instances(&name, &head, values, path, &mut self.diagnostics);
        if repeat.is_some() || head.get("matrix").is_some() {
            let names = matrix.iter().map(|(key, _)| key.name.as_str());
            let names = names.chain(repeat.map(|_| group::TURN)).map(str::to_owned);
            self.matrices.push(Matrix {
                group: name,
                columns: names.collect(),
                numbers: repeat.is_some(),
                instances: instances.iter().map(|i| (i.labels.clone(), i.name.clone())).collect(),
            });
        }
        let mut before = None;
        for MatrixInstance { name: group, values, .. } in instances {
            let inside = |group: String| scope.iter().cloned().chain([group]).collect::<Vec<_>>();
            if let Some(repeat) = repeat {
                self.carry(repeat, scope, &group, before.as_deref(), &path_of("repeat"));
                before = Some(inside(group.clone()));
            }
            let scope = inside(group);
            match node.get("use") {
                None => self.stages(node, &values, &scope, path, open),
                Some(template) => {
                    let with = node.get("with").map(|with| {
                        let path = join(path, "with");
                        interpolate(with, &values, &self.sources, &path, &mut self.diagnostics)
                    });
                    let template =
                        interpolate(template, &values, &self.sources, path, &mut self.diagnostics);
                    self.template(&template, with.as_ref(), &scope, path, open);
                }
            }
        }
    }

    /// Adds the tables that `group`, one turn of a group with this `repeat`, is carried. Those of the first turn are
    /// looked up in `scope`; those of a later one in `before`, the scope of the stages of the turn before.
    fn carry(
        &mut self,
        repeat: &Node,
        scope: &[String],
        group: &str,
        before: Option<&[String]>,
        path: &str,
    ) {
        for (key, node) in repeat.at(&["carry"]).entries() {
            let text = |setting: &str| node.get(setting).and_then(Node::as_str).map(str::to_owned);
            let stage = |setting: &str| text(setting).map(StageRef);
            let rows = match before {
                None => stage("from").map(|from| CarriedRows::First { from }),
                Some(_) => stage("next").map(|next| {
                    let before = StageRef(key.name.clone());
                    CarriedRows::Later { next, before, until: text("until").map(Expression) }
                }),
            };
            // A setting that is no text has been reported against the schema.
            let Some(rows) = rows else { continue };
            let inside: Vec<_> = scope.iter().cloned().chain([group.to_owned()]).collect();
            let Some(name) = self.new_name(key, &inside, &join(&join(path, "carry"), &key.name))
            else {
                continue;
            };
            let spec = StageSpec {
                name: name.clone(),
                scope: before.unwrap_or(scope).to_vec(),
                kind: StageKind::Carry(Box::new(Carry(IndexMap::from([(key.name.clone(), rows)])))),
                common: Common::default(),
                node: repeat.clone(),
                path: path.to_owned(),
                key: key.span,
            };
            self.stages.insert(name, spec);
        }
    }

    /// The group's own keys: its matrix with values, its stages left out. `use` and `with` stay as
    /// written, because they may name values of the matrix.
    fn group_head(&mut self, node: &Node, values: &Values, path: &str) -> Node {
        let entry = |(key, value): &(Key, Node)| {
            let value = match key.name.as_str() {
                "stages" => Node::new(Value::Map(Vec::new()), value.span),
                list @ ("matrix" | "repeat") => {
                    let path = join(path, list);
                    interpolate(value, values, &self.sources, &path, &mut self.diagnostics)
                }
                _ => value.clone(),
            };
            (key.clone(), value)
        };
        let entries = node.entries().iter().map(entry).collect();
        Node { value: Value::Map(entries), span: node.span, written: None }
    }

    fn template(
        &mut self,
        place: &Node,
        with: Option<&Node>,
        scope: &[String],
        group: &str,
        open: &mut Vec<String>,
    ) {
        let path = join(group, "use");
        let from = self.sources.get(place.span.source).name.clone();
        let wanted = place.as_str().unwrap_or_default();
        let failed =
            |message: String| Diagnostic::error(Code::Template, place.span, path.clone(), message);
        let (name, bytes) = match self.loader.load(&from, wanted) {
            Ok(loaded) => loaded,
            Err(why) => {
                let help = "the path is relative to the file that uses it".to_owned();
                self.diagnostics.push(failed(why).with_help(help));
                return;
            }
        };
        if open.contains(&name) {
            self.diagnostics.push(failed(format!("the template `{wanted}` uses itself")));
            return;
        }
        let Some(tree) = self.tree(&name, &bytes) else { return };
        if tree.get("template").is_none() && tree.get("pipeline").is_some() {
            let help = "a template starts with `template: name` instead of `pipeline: name`";
            let diagnostic = failed(format!("`{wanted}` is a pipeline, not a template"));
            self.diagnostics.push(diagnostic.with_help(help.to_owned()));
            return;
        }
        self.check("TemplateFile", &without(&tree, &["stages", "params"]), &["stages"], "");
        self.check_params(&tree, "");
        let given: Vec<_> = with
            .map(Node::entries)
            .unwrap_or_default()
            .iter()
            .map(|(key, node)| (key.name.clone(), Given::Node(key.clone(), node.clone())))
            .collect();
        let setter = Setter::Group(place, group);
        let values = params::resolve(&tree, &given, setter, &mut self.diagnostics);
        open.push(name);
        self.stages(&tree, &values, scope, "", open);
        open.pop();
    }
}
