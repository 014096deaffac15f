//! A tree against a JSON Schema: every diagnostic at once, each at its place.
//!
//! The schema is the one that editors get (`proofmill schema`), so that an editor and `check` can
//! never disagree. Understands the keywords that our settings produce, no more.

use serde_json::{Map, Value as Json};

use crate::code::Code;
use crate::device::Device;
use crate::diagnostic::Diagnostic;
use crate::node::{Node, Value};
use crate::source::Span;
use proofmill_base::suggest;
use proofmill_settings::endpoint::Amount;

/// Keys that a message lists; more of them are left to its help.
const LISTED_MAX: usize = 8;

/// Checks trees against the definitions of one schema.
pub struct Validator<'a> {
    definitions: &'a Map<String, Json>,
}

impl<'a> Validator<'a> {
    /// A validator that finds `$ref`s in `definitions`.
    pub fn new(definitions: &'a Map<String, Json>) -> Self {
        Self { definitions }
    }

    /// All diagnostics of `node` against the definition `name`.
    pub fn check(&self, name: &str, node: &Node, path: &str, out: &mut Vec<Diagnostic>) {
        self.node(&self.definitions[name], node, path, out);
    }

    fn resolve<'s>(&'s self, mut schema: &'s Json) -> &'s Json {
        while let Some(target) = schema.get("$ref").and_then(Json::as_str) {
            let name = target.rsplit('/').next().unwrap_or(target);
            schema = self.definitions.get(name).unwrap_or(&Json::Bool(true));
        }
        schema
    }

    fn node(&self, schema: &Json, node: &Node, path: &str, out: &mut Vec<Diagnostic>) {
        if node.written.as_ref().is_some_and(|written| written.unresolved) {
            // What it holds is not known, and why has been reported.
            return;
        }
        let Some(schema) = self.resolve(schema).as_object() else { return };
        if let Some(options) = alternatives(schema) {
            return self.alternatives(options, node, path, out);
        }
        if let Some(types) = type_names(schema)
            && !types.iter().any(|name| admits(name, node))
        {
            let wanted = types.iter().filter(|t| **t != "null").map(|t| article(t)).collect();
            let message = format!("expected {}, found {}", any_of(wanted), node.describe());
            let diagnostic = Diagnostic::error(Code::WrongType, node.span, path, message);
            out.push(diagnostic.with_help(type_help(&types, node)));
            return;
        }
        match &node.value {
            Value::Map(_) => self.object(schema, node, path, out),
            Value::Seq(items) => self.array(schema, items, node, path, out),
            _ => scalar(schema, node, path, out),
        }
    }

    /// Takes the alternative that the node's type admits; a list of constants is an enumeration.
    fn alternatives(&self, options: &[Json], node: &Node, path: &str, out: &mut Vec<Diagnostic>) {
        let constants: Vec<&str> = options
            .iter()
            .filter_map(|option| self.resolve(option).as_object())
            .flat_map(constants)
            .collect();
        match options.iter().find(|option| self.admits(option, node)) {
            Some(_) if !constants.is_empty() && node.as_str().is_some() => {
                one_of(&constants, node, path, out);
            }
            Some(option) => self.node(option, node, path, out),
            None => {
                let mut types = Vec::new();
                options.iter().for_each(|option| self.types(option, &mut types));
                let message = format!("expected {}, found {}", any_of(types), node.describe());
                out.push(Diagnostic::error(Code::WrongType, node.span, path, message));
            }
        }
    }

    /// True if a schema accepts the type of `node`.
    fn admits(&self, schema: &Json, node: &Node) -> bool {
        let Some(schema) = self.resolve(schema).as_object() else { return true };
        match alternatives(schema) {
            Some(options) => options.iter().any(|option| self.admits(option, node)),
            None => type_names(schema).is_none_or(|types| types.iter().any(|t| admits(t, node))),
        }
    }

    /// The types that a schema accepts, as a reader would say them.
    fn types<'s>(&'s self, schema: &'s Json, out: &mut Vec<&'s str>) {
        let Some(schema) = self.resolve(schema).as_object() else { return };
        match alternatives(schema) {
            Some(options) => options.iter().for_each(|option| self.types(option, out)),
            None => {
                let names = type_names(schema).unwrap_or_default();
                let names = names.into_iter().filter(|name| *name != "null").map(article);
                names.for_each(|name| {
                    if !out.contains(&name) {
                        out.push(name);
                    }
                });
            }
        }
    }

    fn object(
        &self,
        schema: &Map<String, Json>,
        node: &Node,
        path: &str,
        out: &mut Vec<Diagnostic>,
    ) {
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        for (key, value) in node.entries() {
            let path = join(path, &key.name);
            match (properties.get(&key.name), schema.get("additionalProperties")) {
                (Some(property), _) => self.node(property, value, &path, out),
                (None, Some(Json::Bool(false))) => {
                    let message = format!("unknown key `{}`", key.name);
                    let help = suggest::help(&key.name, properties.keys().map(String::as_str));
                    out.push(
                        Diagnostic::error(Code::UnknownKey, key.span, path, message)
                            .with_help(help),
                    );
                }
                (None, Some(rest)) => {
                    if let Some(pattern) = schema.get("propertyNames") {
                        let name = Node::new(Value::Str(key.name.clone()), key.span);
                        self.node(pattern, &name, &path, out);
                    }
                    self.node(rest, value, &path, out);
                }
                (None, None) => {}
            }
        }
        for required in strings(schema.get("required")) {
            if node.get(required).is_none() {
                let message = format!("missing key `{required}`");
                let help = self.purpose(properties.get(required), required);
                out.push(
                    Diagnostic::error(Code::MissingKey, first_key(node), path, message)
                        .with_help(help),
                );
            }
        }
        if schema.get("minProperties").is_some() && node.entries().is_empty() {
            let keys: Vec<_> = properties.keys().map(|key| format!("`{key}`")).collect();
            let (code, message) = match keys.as_slice() {
                [] => (Code::WrongValue, "expected at least one entry, found none".to_owned()),
                keys => {
                    let keys = keys.join(", ");
                    (Code::MissingKey, format!("expected at least one of {keys}, found none"))
                }
            };
            out.push(Diagnostic::error(code, node.span, path, message));
        }
        let all = schema.get("allOf").and_then(Json::as_array).into_iter().flatten();
        let all = all.filter_map(Json::as_object).chain([schema]);
        all.for_each(|one| exactly_one(one, properties, node, path, out));
    }

    /// What a key is for: the first sentence of its description.
    fn purpose(&self, property: Option<&Json>, key: &str) -> Option<String> {
        let own = property?.get("description");
        let text = own.or_else(|| self.resolve(property?).get("description"))?.as_str()?;
        let text = text.replace('\n', " ");
        let first = text.split(". ").next().unwrap_or(&text).trim_end_matches('.');
        Some(format!("`{key}`: {first}"))
    }

    fn array(
        &self,
        schema: &Map<String, Json>,
        items: &[Node],
        node: &Node,
        path: &str,
        out: &mut Vec<Diagnostic>,
    ) {
        if let Some(item_schema) = schema.get("items") {
            for (i, item) in items.iter().enumerate() {
                self.node(item_schema, item, &format!("{path}[{i}]"), out);
            }
        }
        let least = schema.get("minItems").and_then(Json::as_u64).unwrap_or(0) as usize;
        if items.len() < least {
            let wanted = if least == 1 { "one item".to_owned() } else { format!("{least} items") };
            let found = if items.is_empty() { "none".to_owned() } else { items.len().to_string() };
            let message = format!("expected at least {wanted}, found {found}");
            out.push(Diagnostic::error(Code::WrongValue, node.span, path, message));
        }
    }
}

/// `a.b`, `a[0]` for a position in a list, or `b` at the top.
pub fn join(path: &str, key: &str) -> String {
    let is_position = !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit());
    match (path.is_empty(), is_position) {
        (true, _) => key.to_owned(),
        (false, true) => format!("{path}[{key}]"),
        (false, false) => format!("{path}.{key}"),
    }
}

/// `a`, `a or b`, `a, b or c`; a whole number is not named beside any number.
fn any_of(mut choices: Vec<&str>) -> String {
    if choices.contains(&"a number") {
        choices.retain(|choice| *choice != "a whole number");
    }
    match choices.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => choices.concat(),
    }
}

/// The first key of a mapping, where something that is missing from it is reported.
fn first_key(node: &Node) -> Span {
    node.entries().first().map_or(node.span, |(key, _)| key.span)
}

/// Whether a place lies in another.
fn contains(whole: Span, part: Span) -> bool {
    whole.source == part.source && whole.start <= part.start && part.end <= whole.end
}

/// `oneOf` of single required keys: exactly one of them must be there.
fn exactly_one(
    schema: &Map<String, Json>,
    properties: &Map<String, Json>,
    node: &Node,
    path: &str,
    out: &mut Vec<Diagnostic>,
) {
    let Some(groups) = schema.get("oneOf").and_then(Json::as_array) else { return };
    let keys: Vec<&str> = groups.iter().flat_map(|group| strings(group.get("required"))).collect();
    let present: Vec<_> =
        node.entries().iter().filter(|(key, _)| keys.contains(&key.name.as_str())).collect();
    match present.as_slice() {
        // A parameter without a value is reported where it stands.
        [(_, value)] if value.value == Value::Null && !contains(node.span, value.span) => {}
        [(key, value)] if value.value == Value::Null => {
            let message = format!("expected settings of `{}`, found nothing", key.name);
            let path = join(path, &key.name);
            out.push(Diagnostic::error(Code::WrongType, key.span, path, message));
        }
        [_] => {}
        [] => {
            // An unknown key has been reported already: it was meant to be the one that is missing.
            let known = |key: &str| properties.is_empty() || properties.contains_key(key);
            if node.entries().iter().all(|(key, _)| known(&key.name)) {
                let listed: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
                let listed = listed.join(", ");
                let (message, help) = if keys.len() <= LISTED_MAX {
                    (format!("one of the keys {listed} is required"), None)
                } else {
                    let message = format!("one of {} keys is required", keys.len());
                    (message, Some(format!("expected one of {listed}")))
                };
                let code = Code::NotExactlyOne;
                let diagnostic = Diagnostic::error(code, first_key(node), path, message);
                out.push(diagnostic.with_help(help));
            }
        }
        [(first, _), rest @ ..] => {
            for (extra, _) in rest {
                let message = format!("`{}` and `{}` cannot be combined", extra.name, first.name);
                let help = "keep one of them".to_owned();
                let path = join(path, &extra.name);
                out.push(
                    Diagnostic::error(Code::NotExactlyOne, extra.span, path, message)
                        .with_help(help),
                );
            }
        }
    }
}

fn scalar(schema: &Map<String, Json>, node: &Node, path: &str, out: &mut Vec<Diagnostic>) {
    let constants: Vec<&str> = constants(schema);
    if !constants.is_empty() && node.as_str().is_some() {
        return one_of(&constants, node, path, out);
    }
    let number = match node.value {
        Value::Int(value) => Some(value as f64),
        Value::Float(value) => Some(value),
        _ => None,
    };
    let bound = |keyword: &str| schema.get(keyword).and_then(Json::as_f64);
    let wrong = |message: String| Diagnostic::error(Code::WrongValue, node.span, path, message);
    if let Some(number) = number {
        if schema.get("x-amount").is_some()
            && let Err(error) = Amount::try_from(number)
        {
            return out.push(wrong(error.to_string()));
        }
        if let Some(least) = bound("minimum").filter(|least| number < *least) {
            out.push(wrong(format!("expected at least {least}, found {number}")));
        }
        if let Some(least) = bound("exclusiveMinimum").filter(|least| number <= *least) {
            out.push(wrong(format!("expected more than {least}, found {number}")));
        }
        if let Some(most) = bound("maximum").filter(|most| number > *most) {
            out.push(wrong(format!("expected at most {most}, found {number}")));
        }
    }
    if let Some(text) = node.as_str() {
        let most = schema.get("maxLength").and_then(Json::as_u64);
        if let Some(most) = most.filter(|most| text.chars().count() as u64 > *most) {
            let characters = if most == 1 { "character" } else { "characters" };
            out.push(wrong(format!("expected at most {most} {characters}, found `{text}`")));
        }
        // Where a single character is wanted, it may be a space.
        let is_empty = text.is_empty() || most.is_none() && text.trim().is_empty();
        if schema.get("minLength").and_then(Json::as_u64).is_some_and(|least| least > 0) && is_empty
        {
            out.push(wrong("expected a string, found an empty one".to_owned()));
        }
        if schema.get("x-name").is_some() && !proofmill_base::ids::is_name(text) {
            let message = format!("`{text}` is not a name");
            let help = "use a lower-case letter, then up to 63 lower-case letters, digits or `_`";
            let diagnostic = Diagnostic::error(Code::InvalidName, node.span, path, message);
            out.push(diagnostic.with_help(help.to_owned()));
        }
        if schema.get("x-device").is_some()
            && let Err(error) = text.parse::<Device>()
        {
            out.push(wrong(error.to_string()));
        }
    }
}

fn one_of(constants: &[&str], node: &Node, path: &str, out: &mut Vec<Diagnostic>) {
    if let Some(text) = node.as_str().filter(|text| !constants.contains(text)) {
        let listed: Vec<_> = constants.iter().map(|constant| format!("`{constant}`")).collect();
        let message = format!(
            "expected {}, found `{text}`",
            any_of(listed.iter().map(String::as_str).collect())
        );
        let help = suggest::renamed_or_near(text, constants.iter().copied());
        let diagnostic = Diagnostic::error(Code::WrongValue, node.span, path, message);
        out.push(diagnostic.with_help(help));
    }
}

fn constants(schema: &Map<String, Json>) -> Vec<&str> {
    let one = schema.get("const").and_then(Json::as_str);
    strings(schema.get("enum")).into_iter().chain(one).collect()
}

fn strings(list: Option<&Json>) -> Vec<&str> {
    list.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect()
}

/// `anyOf`, or `oneOf` where it is not our "exactly one key".
fn alternatives(schema: &Map<String, Json>) -> Option<&[Json]> {
    let options = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    options.iter().all(|option| option.get("required").is_none()).then_some(options)
}

fn type_names(schema: &Map<String, Json>) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Json::String(name) => Some(vec![name]),
        Json::Array(names) => Some(names.iter().filter_map(Json::as_str).collect()),
        _ => None,
    }
}

fn admits(type_name: &str, node: &Node) -> bool {
    matches!(
        (type_name, &node.value),
        ("null", Value::Null)
            | ("boolean", Value::Bool(_))
            | ("integer", Value::Int(_))
            | ("number", Value::Int(_) | Value::Float(_))
            | ("string", Value::Str(_))
            | ("array", Value::Seq(_))
            | ("object", Value::Map(_))
    )
}

fn article(type_name: &str) -> &str {
    match type_name {
        "boolean" => "`true` or `false`",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a string",
        "array" => "a list",
        "object" => "a mapping",
        other => other,
    }
}

fn type_help(types: &[&str], node: &Node) -> Option<String> {
    match &node.value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) if types.contains(&"string") => {
            Some("put quotes around it to make it a string".to_owned())
        }
        Value::Str(text) if types.contains(&"boolean") => match text.as_str() {
            "yes" | "no" | "on" | "off" => Some("only `true` and `false` are booleans".to_owned()),
            "true" | "false" => Some("write it without quotes".to_owned()),
            _ => None,
        },
        Value::Str(text) if types.contains(&"array") && !text.contains('\n') => {
            Some(format!("write `[{text}]`"))
        }
        Value::Str(text)
            if text.parse::<f64>().is_ok()
                && (types.contains(&"integer") || types.contains(&"number")) =>
        {
            Some("write it without quotes, in plain decimal notation".to_owned())
        }
        _ => None,
    }
}
