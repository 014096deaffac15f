//! [`Pipeline`] to [`Graph`]: names become edges, and implicit stages are added — the
//! index that `retrieve` makes on the way, the union over a matrix.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use crate::graph::order;
use crate::graph::stage::{Graph, Input, Role, Stage};
use crate::sqltext::{self, Query, SqlErrorKind};
use proofmill_base::digest::Digest;
use proofmill_base::ids::StageName;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::kinds::index::{Index, IndexKind};
use proofmill_pipeline::kinds::retrieve::Retrieve;
use proofmill_pipeline::kinds::{Instance, MatrixUnion, StageKind};
use proofmill_pipeline::names::{self, candidates};
use proofmill_pipeline::node::Node;
use proofmill_pipeline::pipeline::{Common, Matrix, Pipeline, StageSpec};
use proofmill_pipeline::settings::StageRef;
use proofmill_pipeline::source::{Sources, Span};
use proofmill_pipeline::validate::join;
use proofmill_settings::search::{IndexBy, Variant};

/// Resolves all names of `pipeline`. Stages with a diagnostic, and those that need one, are left out.
pub fn build(mut pipeline: Pipeline, diagnostics: &mut Vec<Diagnostic>) -> Graph {
    let written: Vec<StageSpec> = std::mem::take(&mut pipeline.stages).into_values().collect();
    let mut builder = Builder {
        names: written.iter().map(|spec| spec.name.clone()).collect(),
        broken: pipeline.broken.iter().cloned().collect(),
        matrices: &pipeline.matrices,
        sources: Arc::clone(&pipeline.sources),
        stages: IndexMap::new(),
        made: Vec::new(),
        diagnostics,
    };
    for spec in written {
        builder.stage(spec);
    }
    for (number, (case, node)) in pipeline.tests.iter().enumerate() {
        for (key, stages) in [("given", case.given.keys()), ("expect", case.expect.keys())] {
            for name in stages {
                builder.tested(number, key, name, node);
            }
        }
    }
    while let Some(spec) = builder.made.pop() {
        if !builder.stages.contains_key(&spec.name) {
            builder.stage(spec);
        }
    }
    let Builder { stages, mut broken, .. } = builder;
    let stages = order::topological(stages, diagnostics);
    let mut valid = IndexMap::with_capacity(stages.len());
    for (name, stage) in stages {
        // What needs a broken stage cannot be checked either.
        if stage.inputs.iter().all(|input| !broken.contains(&input.stage)) {
            valid.insert(name, Arc::new(stage));
        } else {
            broken.insert(name);
        }
    }
    Graph { pipeline, stages: valid }
}

struct Builder<'a> {
    names: IndexSet<StageName>,
    broken: HashSet<StageName>,
    matrices: &'a [Matrix],
    sources: Arc<Sources>,
    stages: IndexMap<StageName, Stage>,
    /// Implicit stages, to be added.
    made: Vec<StageSpec>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Builder<'_> {
    fn stage(&mut self, spec: StageSpec) {
        let before = self.diagnostics.len();
        let (mut inputs, query) = self.inputs(&spec);
        // A check that names no stage leaves the table itself valid.
        let valid = self.diagnostics.len() == before;
        for (i, check) in spec.common.checks.iter().enumerate() {
            if let Some(name) = check.rows.as_ref().and_then(|rows| rows.equal_to.as_ref()) {
                let steps = ["checks", &i.to_string(), "rows", "equal_to"];
                inputs.extend(self.input(&spec, Role::Check(i), name, &steps));
            }
        }
        if valid {
            self.stages.insert(spec.name.clone(), Stage { spec, inputs, query });
        } else {
            self.broken.insert(spec.name);
        }
    }

    fn inputs(&mut self, spec: &StageSpec) -> (Vec<Input>, Option<Box<Query>>) {
        let mut inputs = Vec::new();
        if let StageKind::Sql(sql) = &spec.kind {
            let query = self.query(spec, &sql.0, &mut inputs);
            return (inputs, query);
        }
        for reference in spec.kind.references() {
            let steps =
                [spec.kind.name()].into_iter().chain(reference.steps.iter().map(String::as_str));
            let steps: Vec<&str> = steps.collect();
            let role = Role::Setting(reference.path());
            let Some(input) = self.input(spec, role, &reference.stage, &steps) else { continue };
            let implied = match &spec.kind {
                StageKind::Retrieve(it) if reference.path() == "memory" => {
                    it.index.map(|kind| (kind, it))
                }
                _ => None,
            };
            inputs.push(match implied {
                Some((kind, retrieve)) => self.implied_index(spec, input, kind, retrieve),
                None => input,
            });
        }
        (inputs, None)
    }

    fn query(
        &mut self,
        spec: &StageSpec,
        sql: &str,
        inputs: &mut Vec<Input>,
    ) -> Option<Box<Query>> {
        let node = spec.node.at(&["sql"]);
        let path = join(&spec.path, "sql");
        match sqltext::parse(sql) {
            Ok(query) => {
                for table in &query.tables {
                    let place = node.place_in_text(&self.sources, table.range.clone());
                    let role = Role::Table(table.name.clone());
                    inputs.extend(self.resolve(spec, role, &table.name, &path, place));
                }
                Some(Box::new(query))
            }
            Err(error) => {
                let code = match error.kind {
                    SqlErrorKind::Syntax => Code::SqlSyntax,
                    SqlErrorKind::NotAllowed => Code::SqlNotAllowed,
                    SqlErrorKind::TooLarge => Code::SqlTooLarge,
                };
                let place = node.place_in_text(&self.sources, error.range);
                let diagnostic = Diagnostic::error(code, place, path, error.message);
                self.diagnostics.push(diagnostic.with_help(error.help));
                None
            }
        }
    }

    fn input(
        &mut self,
        spec: &StageSpec,
        role: Role,
        written: &str,
        steps: &[&str],
    ) -> Option<Input> {
        let path = steps.iter().fold(spec.path.clone(), |path, step| join(&path, step));
        self.resolve(spec, role, written, &path, spec.node.at(steps).span)
    }

    /// The edge to the stage that `written` names, seen from `spec`; a diagnostic if there is none.
    fn resolve(
        &mut self,
        spec: &StageSpec,
        role: Role,
        written: &str,
        path: &str,
        place: Span,
    ) -> Option<Input> {
        let names = candidates(&spec.scope, written);
        for name in names.iter().filter_map(|name| name.parse::<StageName>().ok()) {
            if self.names.contains(&name) || self.broken.contains(&name) {
                return Some(Input { role, stage: name });
            }
            if let Some(union) = self.union_of(spec, &name) {
                return Some(Input { role, stage: union });
            }
        }
        self.unknown(&spec.scope, Some(&spec.name), written, path, place);
        None
    }

    /// Reports that `written`, in `scope`, names no stage; `own` is the stage that names it.
    fn unknown(
        &mut self,
        scope: &[String],
        own: Option<&StageName>,
        written: &str,
        path: &str,
        place: Span,
    ) {
        let help = if written.contains('/') {
            Some("a `read` stage turns a file into a table".to_owned())
        } else {
            let known = self.names.iter().filter(|name| Some(*name) != own);
            let united = self.matrices.iter().flat_map(|matrix| {
                let members = matrix.instances.first().map(|(_, group)| format!("{group}."));
                self.names.iter().filter_map(move |name| {
                    let stage = name.as_str().strip_prefix(members.as_deref()?)?;
                    Some(format!("{}.{stage}", matrix.group))
                })
            });
            // Instances of a matrix are rarely meant one by one.
            let instance = |name: &str| {
                let group = name.split_once('.').map(|(group, _)| group);
                let mut groups = self.matrices.iter().flat_map(|matrix| &matrix.instances);
                groups.any(|(_, instance)| Some(instance.as_str()) == group)
            };
            let seen: Vec<String> = known
                .map(|name| names::shortest(scope, name.as_str()))
                .filter(|name| !instance(name))
                .chain(united)
                .collect();
            suggest::help(written, seen.iter().map(String::as_str))
        };
        let message = format!("there is no stage `{written}`");
        let diagnostic = Diagnostic::error(Code::UnknownStage, place, path, message);
        self.diagnostics.push(diagnostic.with_help(help));
    }

    /// A diagnostic if a test names a stage that is not there.
    fn tested(&mut self, number: usize, key: &str, name: &str, node: &Node) {
        let known = name.parse::<StageName>().is_ok_and(|stage| {
            self.names.contains(&stage)
                || self.broken.contains(&stage)
                || self.matrices.iter().any(|matrix| {
                    name.split_once('.').is_some_and(|(group, _)| matrix.group == group)
                })
        });
        if !known {
            let place = node.at(&[key]).entries().iter().find(|(key, _)| key.name == name);
            let place = place.map_or(node.span, |(key, _)| key.span);
            let path = join(&format!("tests[{number}].{key}"), name);
            self.unknown(&[], None, name, &path, place);
        }
    }

    /// The union over a matrix that `name` (`group.stage`) stands for, made on first use.
    fn union_of(&mut self, spec: &StageSpec, name: &StageName) -> Option<StageName> {
        let (group, stage) = name.as_str().split_once('.')?;
        let matrix = self.matrices.iter().find(|matrix| matrix.group == group)?;
        let instance = |(labels, group): &(Vec<String>, String)| {
            let member = format!("{group}.{stage}");
            let known = member.parse::<StageName>().ok().is_some_and(|member| {
                self.names.contains(&member) || self.broken.contains(&member)
            });
            known.then(|| Instance { labels: labels.clone(), stage: StageRef(member) })
        };
        let instances = matrix.instances.iter().map(instance).collect::<Option<Vec<_>>>()?;
        let kind = StageKind::MatrixUnion(Box::new(MatrixUnion {
            columns: matrix.columns.clone(),
            numbers: matrix.numbers,
            instances,
        }));
        self.make(spec, name.clone(), kind);
        Some(name.clone())
    }

    /// The index that `retrieve` makes over a table, with the defaults of the kind `index`.
    fn implied_index(
        &mut self,
        spec: &StageSpec,
        memory: Input,
        kind: IndexKind,
        Retrieve { analyzer, keep, .. }: &Retrieve,
    ) -> Input {
        let mut name = format!("{}__{}", memory.stage, kind.as_str());
        if !analyzer.is_default() {
            name = format!("{name}_{}", analyzer.name());
        }
        if !keep.is_empty() {
            // Columns may be called what no stage can: a digest tells lists of them apart.
            let digest = Digest::of(keep.join("\0").as_bytes()).to_string();
            name = format!("{name}_keep_{}", &digest[..8]);
        }
        let Ok(name) = name.parse::<StageName>() else { return memory };
        let kind = StageKind::Index(Box::new(Index {
            kind,
            from: StageRef(memory.stage.to_string()),
            by: IndexBy::default(),
            fact: "fact".to_owned(),
            question: None,
            id: None,
            keep: keep.clone(),
            vector: None,
            variant: Variant::default(),
            k1: None,
            delta: None,
            b: None,
            analyzer: *analyzer,
        }));
        self.make(spec, name.clone(), kind);
        Input { role: memory.role, stage: name }
    }

    /// Adds an implicit stage; diagnostics in it point at `because`, which needs it.
    fn make(&mut self, because: &StageSpec, name: StageName, kind: StageKind) {
        if self.names.insert(name.clone()) {
            self.made.push(StageSpec {
                name,
                scope: Vec::new(),
                kind,
                common: Common::default(),
                node: because.node.clone(),
                path: because.path.clone(),
                key: because.key,
            });
        }
    }
}
