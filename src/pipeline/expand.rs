//! Text to [`Pipeline`]: parameters replaced, groups, templates and matrices inlined, settings
//! checked and typed. Collects every diagnostic instead of stopping at the first.

mod groups;
mod models;

use std::sync::Arc;

use indexmap::IndexMap;

use crate::code::Code;
use crate::declared::Declaration;
use crate::diagnostic::{self, Diagnostic};
use crate::interpolate::interpolate;
use crate::kinds::{Stage, StageKind};
use crate::models::Model;
use crate::node::{Key, Node, Value};
use crate::params::{self, Given, Setter, Values};
use crate::pipeline::{Common, Matrix, Pipeline, StageSpec, Strict, full_name};
use crate::schema::FormatSchema;
use crate::source::{Sources, Span};
use crate::testcase::TestCase;
use crate::text;
use crate::validate::{Validator, join};
use crate::yaml;
use proofmill_base::clock::parse_duration;
use proofmill_base::ids::{NAME_BYTES_MAX, StageName, is_name};
use proofmill_base::secret;

/// Keys that only groups have.
const GROUP_KEYS: [&str; 5] = ["stages", "use", "with", "matrix", "repeat"];

/// Reads template files. Injected, so that this layer does no I/O of its own.
pub trait Loader {
    /// The name to show and the bytes of the file that `from` calls `path`; or why not. Of a file longer
    /// than [`text::FILE_BYTES_MAX`], one byte more than that.
    fn load(&self, from: &str, path: &str) -> Result<(String, Vec<u8>), String>;
}

/// What reading a pipeline gives.
#[derive(Debug)]
pub struct Parsed {
    /// The pipeline, as far as it could be made out.
    pub pipeline: Option<Pipeline>,
    /// All texts that were read.
    pub sources: Arc<Sources>,
    /// All diagnostics, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
}

/// Values of parameters by name, as `--param` takes them.
pub type Parameters<'a> = &'a [(String, String)];

/// Reads the pipeline file `name`, which holds `bytes`. Its parameters are `params`; where these are silent, those of
/// `profile` that the file declares.
pub fn parse(
    name: &str,
    bytes: &[u8],
    params: Parameters<'_>,
    profile: Parameters<'_>,
    loader: &dyn Loader,
) -> Parsed {
    let mut expander = Expander {
        schema: FormatSchema::generate(),
        loader,
        sources: Sources::default(),
        stages: IndexMap::new(),
        broken: Vec::new(),
        matrices: Vec::new(),
        diagnostics: Vec::new(),
    };
    let file = expander.file(name, bytes, params, profile);
    let Expander { sources, stages, broken, matrices, mut diagnostics, .. } = expander;
    diagnostic::tidy(&mut diagnostics);
    let sources = Arc::new(sources);
    let pipeline = file.map(|file| Pipeline {
        name: file.name,
        description: file.description,
        params: file.params,
        models: file.models,
        strict: file.strict,
        stages,
        broken,
        matrices,
        tests: file.tests,
        sources: Arc::clone(&sources),
    });
    Parsed { pipeline, sources, diagnostics }
}

/// What stands beside the stages of a pipeline file.
struct File {
    name: String,
    description: Option<String>,
    params: IndexMap<String, serde_json::Value>,
    models: IndexMap<String, (Model, Node)>,
    strict: Vec<Strict>,
    tests: Vec<(TestCase, Node)>,
}

struct Expander<'a> {
    schema: FormatSchema,
    loader: &'a dyn Loader,
    sources: Sources,
    stages: IndexMap<StageName, StageSpec>,
    broken: Vec<StageName>,
    matrices: Vec<Matrix>,
    diagnostics: Vec<Diagnostic>,
}

impl Expander<'_> {
    fn file(
        &mut self,
        name: &str,
        bytes: &[u8],
        params: Parameters<'_>,
        profile: Parameters<'_>,
    ) -> Option<File> {
        let tree = self.tree(name, bytes)?;
        let declared = tree.get("params").map(Node::entries).unwrap_or_default();
        let is_declared = |name: &String| declared.iter().any(|(key, _)| key.name == *name);
        // The last value of a name counts.
        let profile = profile.iter().filter(|(name, _)| is_declared(name));
        let given: Vec<_> =
            profile.chain(params).map(|(k, v)| (k.clone(), Given::Text(v.clone()))).collect();
        let values = params::resolve(&tree, &given, Setter::CommandLine, &mut self.diagnostics);
        let head = without(&tree, &["stages", "params", "models"]);
        let head = interpolate(&head, &values, &self.sources, "", &mut self.diagnostics);
        self.check("PipelineFile", &head, &["stages"], "");
        self.check_params(&tree, "");
        self.secret_params(&tree, &values);
        self.stages(&tree, &values, &[], "", &mut Vec::new());
        let models = self.models(&tree, &values);
        let tests = self.tests(&head);
        let value = |name: &str| values.get(&format!("params.{name}")).map(Node::to_json);
        Some(File {
            name: head.get("pipeline").and_then(Node::as_str).unwrap_or("unnamed").to_owned(),
            description: head.get("description").and_then(Node::as_str).map(str::to_owned),
            params: declared
                .iter()
                .filter_map(|(key, _)| Some((key.name.clone(), value(&key.name)?)))
                .collect(),
            models,
            strict: head
                .get("strict")
                .and_then(|node| serde_json::from_value(node.to_json()).ok())
                .unwrap_or_default(),
            tests,
        })
    }

    /// A diagnostic for each parameter with an address that has a secret in it: a run keeps its parameters.
    fn secret_params(&mut self, tree: &Node, values: &Values) {
        let declared = tree.get("params").map(Node::entries).unwrap_or_default();
        for (key, declared) in declared {
            let value = values.get(&format!("params.{}", key.name));
            let default = Declaration::of(declared).default();
            let texts = value.into_iter().chain([&default]).flat_map(|node| match &node.value {
                Value::Seq(items) => items.iter().filter_map(Node::as_str).collect(),
                _ => node.as_str().into_iter().collect::<Vec<_>>(),
            });
            let mut secrets = texts.filter_map(secret::of_address);
            let Some(why) = secrets.next() else { continue };
            let help = "runs store and show their parameters: put secrets in the environment";
            self.secret(declared.span, join("params", &key.name), why, help);
        }
    }

    fn secret(&mut self, span: Span, path: String, why: &str, help: &str) {
        self.sources.hide(span);
        let message = format!("the address {why}");
        let diagnostic = Diagnostic::error(Code::SecretInAddress, span, path, message);
        self.diagnostics.push(diagnostic.with_help(Some(help.to_owned())));
    }

    /// The tree of a file; a diagnostic if it is no mapping.
    fn tree(&mut self, name: &str, bytes: &[u8]) -> Option<Node> {
        let source = match text::add(name, bytes, &mut self.sources) {
            Ok(source) => source,
            Err(diagnostic) => {
                self.diagnostics.push(*diagnostic);
                return None;
            }
        };
        match yaml::parse(&self.sources, source, &mut self.diagnostics) {
            Ok(tree) if matches!(tree.value, Value::Map(_)) => Some(tree),
            Ok(mut tree) => {
                if tree.value == Value::Null {
                    // An empty file has no better place than its start.
                    tree.span = Span { source, start: 0, end: 0 };
                }
                let message = format!("expected a mapping, found {}", tree.describe());
                let help = "a pipeline file starts with `pipeline: name`".to_owned();
                let diagnostic = Diagnostic::error(Code::WrongType, tree.span, "", message);
                self.diagnostics.push(diagnostic.with_help(help));
                None
            }
            Err(diagnostic) => {
                self.diagnostics.push(*diagnostic);
                None
            }
        }
    }

    /// Checks `node` against a definition; the keys `present` are checked elsewhere.
    fn check(&mut self, definition: &str, node: &Node, present: &[&str], path: &str) -> bool {
        let before = self.diagnostics.len();
        Validator::new(self.schema.definitions()).check(
            definition,
            node,
            path,
            &mut self.diagnostics,
        );
        let elsewhere = |d: &Diagnostic| {
            d.code == Code::MissingKey
                && d.path == path
                && present.iter().any(|key| d.message == format!("missing key `{key}`"))
        };
        let found = self.diagnostics.split_off(before);
        self.diagnostics.extend(found.into_iter().filter(|d| !elsewhere(d)));
        !diagnostic::has_errors(&self.diagnostics[before..])
    }

    fn check_params(&mut self, tree: &Node, path: &str) {
        let Some(params) = tree.get("params") else { return };
        let path = join(path, "params");
        if params.value != Value::Null && !self.is_mapping(params, &path) {
            return;
        }
        for (key, default) in params.entries() {
            self.name(key, &path);
            self.check("Parameter", default, &[], &join(&path, &key.name));
        }
    }

    /// A diagnostic if `node` is no mapping.
    fn is_mapping(&mut self, node: &Node, path: &str) -> bool {
        let is_mapping = matches!(node.value, Value::Map(_));
        if !is_mapping {
            let message = format!("expected a mapping, found {}", node.describe());
            self.diagnostics.push(Diagnostic::error(Code::WrongType, node.span, path, message));
        }
        is_mapping
    }

    /// A diagnostic if `key` is not a name.
    fn name(&mut self, key: &Key, path: &str) -> bool {
        // `__` marks the stages and tables that the program adds.
        let valid = is_name(&key.name) && !key.name.contains("__");
        if !valid {
            let message = format!("`{}` is not a name", key.name);
            let help = "use a lower-case letter, then up to 63 lower-case letters, digits or `_`, \
                        and never `__`";
            let path = join(path, &key.name);
            let diagnostic = Diagnostic::error(Code::InvalidName, key.span, path, message);
            self.diagnostics.push(diagnostic.with_help(help.to_owned()));
        }
        valid
    }

    /// The `stages` of a file, a template or a group.
    fn stages(
        &mut self,
        holder: &Node,
        values: &Values,
        scope: &[String],
        path: &str,
        open: &mut Vec<String>,
    ) {
        let path = join(path, "stages");
        let Some(stages) = holder.get("stages") else {
            let span = holder.entries().first().map_or(holder.span, |(key, _)| key.span);
            let message = "missing key `stages`";
            self.diagnostics.push(Diagnostic::error(Code::MissingKey, span, path, message));
            return;
        };
        if !self.is_mapping(stages, &path) {
            return;
        }
        for (key, node) in stages.entries() {
            let path_here = join(&path, &key.name);
            if !self.name(key, &path) {
                continue;
            }
            if node.entries().iter().any(|(k, _)| GROUP_KEYS.contains(&k.name.as_str())) {
                self.group(key, node, values, scope, &path_here, open);
            } else {
                let node =
                    interpolate(node, values, &self.sources, &path_here, &mut self.diagnostics);
                self.stage(key, node, scope, path_here);
            }
        }
    }

    /// The full name of the stage `key` in `scope`; a diagnostic if it cannot be one or there is such a stage.
    fn new_name(&mut self, key: &Key, scope: &[String], path: &str) -> Option<StageName> {
        let full = full_name(scope, &key.name);
        let Ok(name) = full.parse::<StageName>() else {
            let message = format!(
                "the full name `{full}` has a part of more than {NAME_BYTES_MAX} characters"
            );
            let help = "give the groups around it shorter names".to_owned();
            let diagnostic = Diagnostic::error(Code::InvalidName, key.span, path, message);
            self.diagnostics.push(diagnostic.with_help(help));
            return None;
        };
        if self.stages.contains_key(&name) {
            let message = format!("a stage `{full}` already exists");
            let help =
                "a group's name is joined by `_` with the groups around it, its matrix values and its turns"
                    .to_owned();
            let diagnostic = Diagnostic::error(Code::Duplicate, key.span, path, message);
            self.diagnostics.push(diagnostic.with_help(help));
            return None;
        }
        Some(name)
    }

    fn stage(&mut self, key: &Key, node: Node, scope: &[String], path: String) {
        let Some(name) = self.new_name(key, scope, &path) else { return };
        if let Some(spec) = self.typed_stage(key, node, scope, path, &name) {
            self.stages.insert(name, spec);
        } else {
            self.broken.push(name);
        }
    }

    fn typed_stage(
        &mut self,
        key: &Key,
        node: Node,
        scope: &[String],
        path: String,
        name: &StageName,
    ) -> Option<StageSpec> {
        let before = self.diagnostics.len();
        let mut node = node;
        if !self.check("Stage", &node, &[], &path) {
            node = without_faulty(&node, &path, &self.diagnostics[before..])?;
        }
        if node.is_unresolved() {
            return None;
        }
        let settings: Stage = match serde_json::from_value(node.to_json()) {
            Ok(settings) => settings,
            Err(error) => {
                let message = error.to_string();
                self.diagnostics.push(Diagnostic::error(
                    Code::WrongValue,
                    node.span,
                    path,
                    message,
                ));
                return None;
            }
        };
        let timeout = settings.timeout.as_deref().and_then(parse_duration);
        if settings.timeout.is_some() && timeout.is_none() {
            let found = node.at(&["timeout"]);
            let message = format!("expected a length of time, found {}", found.describe());
            let help = "write a whole number from 1 and `ms`, `s`, `m` or `h`, such as `90s`";
            let path = join(&path, "timeout");
            let diagnostic = Diagnostic::error(Code::WrongValue, found.span, path, message);
            self.diagnostics.push(diagnostic.with_help(help.to_owned()));
        }
        let kind = StageKind::of(&settings)?;
        let common = Common {
            description: settings.description,
            checks: settings.checks,
            on_error: settings.on_error,
            max_error_rate: settings.max_error_rate,
            timeout,
            partitions: settings.partitions,
        };
        let (name, scope, key) = (name.clone(), scope.to_vec(), key.span);
        Some(StageSpec { name, scope, kind, common, node, path, key })
    }

    fn tests(&mut self, head: &Node) -> Vec<(TestCase, Node)> {
        let Some(Value::Seq(items)) = head.get("tests").map(|tests| &tests.value) else {
            return Vec::new();
        };
        let decode =
            |node: &Node| Some((serde_json::from_value(node.to_json()).ok()?, node.clone()));
        items.iter().filter_map(decode).collect()
    }
}

/// The mapping without some of its keys.
fn without(node: &Node, keys: &[&str]) -> Node {
    let kept = node.entries().iter().filter(|(key, _)| !keys.contains(&key.name.as_str()));
    Node { value: Value::Map(kept.cloned().collect()), span: node.span, written: None }
}

/// The stage without the keys of [`Common`] that have a diagnostic, so that the rest of it can be
/// checked further; `None` if there are other diagnostics.
fn without_faulty(node: &Node, path: &str, diagnostics: &[Diagnostic]) -> Option<Node> {
    let faulty = |key: &str| {
        let own = join(path, key);
        diagnostics.iter().any(|diagnostic| {
            let rest = diagnostic.path.strip_prefix(&own);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    let keys: Vec<&str> = node.entries().iter().map(|(key, _)| key.name.as_str()).collect();
    let kinds: Vec<_> = keys.iter().filter(|key| StageKind::NAMES.contains(key)).collect();
    let common = diagnostics.iter().all(|diagnostic| diagnostic.path.len() > path.len());
    (common && kinds.len() == 1 && !faulty(kinds[0]))
        .then(|| without(node, &keys.into_iter().filter(|key| faulty(key)).collect::<Vec<_>>()))
}
