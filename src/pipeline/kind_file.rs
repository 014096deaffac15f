//! Files beside pipelines that say by `kind` what they are: schedules, gates. Their JSON Schema follows from their type, and
//! whatever is wrong with a file is said at its place.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::{Node, Value};
use crate::settings::Reference;
use crate::source::{Sources, Span};
use crate::validate::Validator;
use crate::{text, yaml};
use proofmill_base::styled::printable;

/// A file that fits its schema.
#[derive(Debug)]
pub struct KindFile<T> {
    pub file: T,
    pub node: Node,
    pub sources: Sources,
}

/// All that is wrong with a file, and its text.
pub type Refused = (Vec<Diagnostic>, Sources);

/// The JSON Schema of a kind of file, for editors.
pub fn schema<T: JsonSchema>() -> Json {
    let generator = SchemaSettings::draft07().into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// Reads the bytes of a file called `name`.
///
/// # Errors
///
/// Everything that does not fit the schema.
pub fn parse<T: JsonSchema + DeserializeOwned>(
    name: &str,
    bytes: &[u8],
) -> Result<KindFile<T>, Refused> {
    let mut sources = Sources::default();
    let mut diagnostics = Vec::new();
    let node = text::add(name, bytes, &mut sources)
        .and_then(|source| yaml::parse(&sources, source, &mut diagnostics));
    let node = match node {
        Ok(node) => node,
        Err(diagnostic) => return Err((vec![*diagnostic], sources)),
    };
    let (mut definitions, schema, root) = (Map::new(), schema::<T>(), T::schema_name());
    if let Some(Json::Object(inner)) = schema.get("definitions") {
        definitions.extend(inner.clone());
    }
    definitions.insert(root.to_string(), schema);
    Validator::new(&definitions).check(&root, &node, "", &mut diagnostics);
    if !diagnostics.is_empty() {
        return Err((diagnostics, sources));
    }
    match serde_json::from_value(node.to_json()) {
        Ok(file) => Ok(KindFile { file, node, sources }),
        Err(error) => {
            // What a schema does not say: names of a closed set, and of other keys which kind of file this is.
            let said = error.to_string();
            // A value in backticks, and a text in quotes, is one of the file.
            let quoted = || said.split_once("string \"")?.1.split('"').next();
            let value = said.split('`').nth(1).or_else(quoted);
            let found = value.and_then(|value| holder(&node, value));
            let (path, span) =
                found.unwrap_or_else(|| ("kind".to_owned(), node.at(&["kind"]).span));
            let diagnostic = Diagnostic::error(
                Code::WrongValue,
                span,
                path,
                printable(&error.to_string(), true),
            );
            Err((vec![diagnostic], sources))
        }
    }
}

/// The key and the place of a value: the first that is written so.
fn holder(node: &Node, value: &str) -> Option<(String, Span)> {
    let in_list = |node: &Node| match &node.value {
        Value::Seq(items) => items.iter().find_map(|item| holder(item, value)),
        _ => None,
    };
    let is_it = |node: &Node| match &node.value {
        Value::Str(text) => text == value,
        Value::Int(number) => number.to_string().as_str() == value,
        _ => false,
    };
    node.entries().iter().find_map(|(key, node)| match is_it(node) {
        true => Some((key.name.clone(), node.span)),
        false => holder(node, value).or_else(|| in_list(node)),
    })
}

impl<T> KindFile<T> {
    /// What is wrong with a value, by the keys and positions that lead to it: as far as they do.
    pub fn wrong(&self, path: &[&str], message: String, help: Option<&str>) -> Diagnostic {
        let span = self.node.at(path).span;
        let steps = path.iter().map(|step| (*step).to_owned()).collect();
        let path = Reference { steps, stage: String::new() }.path();
        // A value that is quoted makes no line of its own.
        let message = printable(&message, true);
        let diagnostic = Diagnostic::error(Code::WrongValue, span, path, message);
        diagnostic.with_help(help.map(str::to_owned))
    }
}
