//! The JSON Schema of the pipeline file, made from the settings' types: the one that editors use
//! and the one that `check` enforces.

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::checks::Scalar;
use crate::declared::{Parameter, ParameterValue};
use crate::kinds::Stage;
use crate::models::Model;
use crate::pipeline::Strict;
use crate::settings::{Expression, StageRef};
use crate::testcase::TestCase;

/// A pipeline file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineFile {
    /// Name of the pipeline.
    #[schemars(extend("x-name" = true))]
    pub pipeline: String,
    /// What it evaluates, for people.
    pub description: Option<String>,
    /// Parameters with their defaults, or what is declared of them; `--param name=value` sets them, `${params.name}` uses them.
    #[serde(default)]
    pub params: IndexMap<String, Parameter>,
    /// Language models by name.
    #[serde(default)]
    pub models: IndexMap<String, ModelEntry>,
    /// Warnings that are errors here.
    #[serde(default)]
    pub strict: Vec<Strict>,
    /// Stages and groups of stages by name.
    pub stages: IndexMap<String, Entry>,
    /// Tests that `proofmill test` runs.
    #[serde(default)]
    pub tests: Vec<TestCase>,
}

/// A template file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateFile {
    /// Name of the template.
    #[schemars(extend("x-name" = true))]
    pub template: String,
    /// What it is for.
    pub description: Option<String>,
    /// Parameters with their defaults, or what is declared of them; `with` sets them.
    #[serde(default)]
    pub params: IndexMap<String, Parameter>,
    /// Stages and groups of stages by name.
    pub stages: IndexMap<String, Entry>,
}

/// A model, or several that differ in values.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "exists for its schema only")]
pub enum ModelEntry {
    /// A model.
    One(Model),
    /// A model for each combination.
    Many(ModelMatrix),
}

/// Models that differ in values. The name of each is that of the entry and its values, joined by `_`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ModelMatrix {
    /// Parameters and their values: there is a model for each combination, and its settings can use `${matrix.name}`.
    #[schemars(extend("minProperties" = 1))]
    pub matrix: IndexMap<String, MatrixValues>,
}

/// A stage or a group.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "exists for its schema only")]
pub enum Entry {
    /// A table.
    Stage(Stage),
    /// Several tables.
    Group(Group),
}

/// A group of stages: written here, or inlined from a template; once, for each value of a matrix, or turn by turn.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["stages"]}, {"required": ["use"]}]))]
pub struct Group {
    /// The group's stages.
    pub stages: Option<IndexMap<String, Entry>>,
    /// Path of a template file, relative to this file.
    #[serde(rename = "use")]
    pub template: Option<String>,
    /// Values of the template's parameters.
    pub with: Option<IndexMap<String, ParameterValue>>,
    /// Parameters and their values: the group is repeated for each combination.
    #[schemars(extend("minProperties" = 1))]
    pub matrix: Option<IndexMap<String, MatrixValues>>,
    /// The group is repeated in turns, and tables are carried from turn to turn.
    pub repeat: Option<Repeat>,
    /// What the group is, for people.
    pub description: Option<String>,
}

/// The values of a matrix parameter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MatrixValues(#[schemars(length(min = 1))] pub Vec<Scalar>);

/// Turns of a group, one after the other. Stages of the group can use `${repeat.turn}`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// Turns, at most 20.
    #[schemars(range(min = 1, max = 20))]
    pub turns: u32,
    /// Tables that are carried from turn to turn, by the name that the group's stages read them by.
    #[schemars(extend("minProperties" = 1))]
    pub carry: IndexMap<String, CarriedTable>,
}

/// A table that is carried from turn to turn. It has the columns of `from` in every turn.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CarriedTable {
    /// Table of the first turn.
    pub from: StageRef,
    /// Stage of the group whose table goes into the next turn.
    pub next: StageRef,
    /// Boolean over the columns of `next`: rows for which it is true are done and go into no further turn.
    pub until: Option<Expression>,
}

/// The schema of pipeline files, and of templates, with all definitions by name.
#[derive(Debug)]
pub struct FormatSchema {
    root: Schema,
    template: Json,
    definitions: Map<String, Json>,
}

impl FormatSchema {
    /// Generates the schema from the types.
    pub fn generate() -> Self {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let template = generator.subschema_for::<TemplateFile>();
        let root = generator.into_root_schema_for::<PipelineFile>();
        let mut definitions =
            root.get("$defs").and_then(Json::as_object).cloned().unwrap_or_default();
        let mut file = root.as_value().clone();
        if let Some(object) = file.as_object_mut() {
            object.remove("$defs");
        }
        definitions.insert("PipelineFile".to_owned(), file);
        Self { root, template: template.to_value(), definitions }
    }

    /// The definitions that a [`crate::validate::Validator`] checks against.
    pub fn definitions(&self) -> &Map<String, Json> {
        &self.definitions
    }

    /// The document for editors: a file is a pipeline or a template, and `${…}` may stand for
    /// any scalar, choice or list.
    pub fn document(&self) -> Json {
        let mut definitions = self.definitions.clone();
        definitions.values_mut().for_each(admit_parameters);
        json!({
            "$schema": self.root.get("$schema"),
            "title": "proofmill pipeline",
            "if": {"required": ["template"]},
            "then": self.template,
            "else": {"$ref": "#/$defs/PipelineFile"},
            "$defs": definitions,
        })
    }
}

/// Lets `${…}` stand wherever a number, a boolean, one of several words or a list is expected.
fn admit_parameters(schema: &mut Json) {
    const PARAMETER: &str = "^\\$\\{[^}]+\\}$";
    match schema {
        Json::Array(items) => items.iter_mut().for_each(admit_parameters),
        Json::Object(object) => {
            let given = |name: &Json| {
                matches!(name.as_str(), Some("integer" | "number" | "boolean" | "array"))
            };
            let is_given = match object.get("type") {
                Some(Json::Array(names)) => names.iter().all(|name| given(name) || name == "null"),
                Some(name) => given(name),
                None => false,
            };
            let is_constant = |choice: &Json| choice.get("const").is_some_and(Json::is_string);
            let choices = object.get("oneOf").and_then(Json::as_array);
            let is_choice = object.contains_key("enum")
                || choices.is_some_and(|choices| choices.iter().all(is_constant));
            if is_given || is_choice {
                let description = object.remove("description");
                let plain = Json::Object(std::mem::take(object));
                object.extend(description.map(|text| ("description".to_owned(), text)));
                let parameter = json!({"type": "string", "pattern": PARAMETER});
                object.insert("anyOf".to_owned(), json!([plain, parameter]));
            } else {
                object.values_mut().for_each(admit_parameters);
            }
        }
        _ => {}
    }
}
