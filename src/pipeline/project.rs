//! The project file: what belongs to a machine or a place and not to a pipeline, under names of profiles.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::{Sources, Span};
use crate::{text, yaml};

/// Its name, in the working directory.
pub const PROJECT_FILE: &str = "proofmill.yaml";

/// A project file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Project {
    /// The profile that counts when none is requested.
    pub profile: Option<String>,
    #[serde(default)]
    pub profiles: IndexMap<String, Profile>,
}

/// What commands work with in one place.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The store, as `--store` takes it.
    pub store: Option<String>,
    /// Values for the parameters of these names, in every pipeline that declares them.
    #[serde(default)]
    pub params: IndexMap<String, Json>,
    /// Whether `run` publishes requests for workers, as with `--workers`.
    #[serde(default)]
    pub workers: bool,
}

impl Profile {
    /// The parameters as `--param` takes them.
    pub fn params(&self) -> Vec<(String, String)> {
        self.params.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
    }
}

/// The value of a parameter as `--param` takes it.
pub fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    }
}

/// Reads a project file that holds `bytes`; or the text with what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Project, (Box<Diagnostic>, Sources)> {
    let mut sources = Sources::default();
    let mut repeated = Vec::new();
    let node = text::add(PROJECT_FILE, bytes, &mut sources)
        .and_then(|source| yaml::parse(&sources, source, &mut repeated));
    let node = match (node, repeated.pop()) {
        (Ok(node), None) => node,
        (Ok(_), Some(diagnostic)) => return Err((Box::new(diagnostic), sources)),
        (Err(diagnostic), _) => return Err((diagnostic, sources)),
    };
    match node.to_json() {
        Json::Null => Ok(Project::default()),
        json => serde_json::from_value(json).map_err(|error| {
            let place = Span { end: node.span.start, ..node.span };
            let help =
                "a project file has `profile: NAME` and `profiles: { NAME: { store, params, workers } }`";
            let diagnostic = Diagnostic::error(Code::WrongType, place, "", error.to_string());
            (Box::new(diagnostic.with_help(help.to_owned())), sources)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_have_a_store_and_parameters() {
        let text = "profile: here\nprofiles:\n  here: { store: s, params: { k: 5, kinds: [a, b], on: true }, workers: true }\n  there: {}\n";
        let project = parse(text.as_bytes()).unwrap();
        assert_eq!(project.profile.as_deref(), Some("here"));
        assert_eq!(project.profiles["here"].store.as_deref(), Some("s"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [pair("k", "5"), pair("kinds", "a,b"), pair("on", "true")];
        assert_eq!(project.profiles["here"].params(), expected);
        assert!(project.profiles["here"].workers && !project.profiles["there"].workers);
        assert_eq!(project.profiles["there"], Profile::default());
        assert_eq!(parse(b"").unwrap(), Project::default());
        for text in ["profiles: [a]", "store: s", "profiles: { a: { stor: s } }", "a: 1\na: 2", "{"]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
