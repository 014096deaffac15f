//! What a fingerprint covers: everything that can change an artifact, by name, so that a hit or a
//! miss can be explained from what is stored.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

use proofmill_base::digest::Digest;
use proofmill_base::ids::Fingerprint;
use proofmill_pipeline::settings;

use crate::session::policy::Calls;
use crate::session::{Engine, SQL_VERSION};
use crate::sqltext;
use crate::stages::diagnostics::Diagnostics;
use proofmill_pipeline::kinds::StageKind;
use proofmill_store::Artifact;

/// Which settings of a stage count for its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All, as they are written.
    All,
    /// The kind sets those that count: some do not, or count as what they lead to.
    ByTheKind,
}

/// The components of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Components(BTreeMap<String, String>);

impl Components {
    /// The components that every kind has: the kind, the version of its behaviour, the engine.
    pub fn of_kind(kind: &StageKind, version: u32, counted: Counted) -> Self {
        let mut components = Self::default();
        components.set("kind", kind.name());
        components.set("kind.version", version);
        components.set("engine", format!("datafusion {}", datafusion::DATAFUSION_VERSION));
        if counted == Counted::All {
            components.flatten("settings", &kind.values(&sqltext::normalized).values);
        }
        components
    }

    /// Those that the fingerprint of a stored table covers.
    pub fn of_record(artifact: &Artifact) -> Self {
        Self(artifact.components.clone())
    }

    /// Adds one.
    pub fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.0.insert(name.into(), value.to_string());
    }

    /// Adds each leaf of the settings under `settings.`, expressions in their canonical form. What is absent
    /// does not count, and of stages and models counts what they are, not their names.
    pub fn set_settings(&mut self, settings: &impl Serialize) {
        self.flatten("settings", &settings::read(settings, &sqltext::normalized).values);
    }

    /// Adds under `prefix` the identity of a model that the stage uses; a diagnostic if it cannot
    /// be determined.
    pub fn set_model(
        &mut self,
        prefix: &str,
        model: &str,
        engine: &Engine,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<()> {
        match engine.models().identity(model)? {
            Ok(identity) => {
                identity
                    .parts()
                    .for_each(|(part, value)| self.set(format!("{prefix}.{part}"), value));
                Some(())
            }
            Err(error) => {
                diagnostics.unreadable(model, error.key(), error.parts());
                None
            }
        }
    }

    /// Adds the order of the keys of a setting that shows in the table; one key has none.
    pub fn set_order<'k>(&mut self, setting: &str, keys: impl Iterator<Item = &'k String>) {
        let keys: Vec<&str> = keys.map(String::as_str).collect();
        if keys.len() > 1 {
            self.set(format!("order.{setting}"), keys.join(", "));
        }
    }

    /// Adds the functions that a query calls, with the versions of their behaviour, and that of SQL itself.
    pub fn set_calls(&mut self, calls: &Calls) {
        if calls.planned {
            self.set("sql.version", SQL_VERSION);
        }
        for name in &calls.functions {
            if let Some(version) = proofmill_udfs::version(name) {
                self.set(format!("function.{name}"), version);
            }
        }
    }

    fn flatten(&mut self, path: &str, value: &Json) {
        match value {
            Json::Null => {}
            Json::Object(object) => {
                object
                    .iter()
                    .for_each(|(key, value)| self.flatten(&format!("{path}.{key}"), value));
            }
            Json::Array(items) => {
                let items = items.iter().enumerate();
                items.for_each(|(i, item)| self.flatten(&format!("{path}[{i}]"), item));
            }
            Json::String(text) => self.set(path, text),
            other => self.set(path, other),
        }
    }

    /// All of them.
    pub fn map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The digest of all of them: each name and value with its length, in the order of the names.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut text = String::new();
        for (name, value) in &self.0 {
            text.push_str(&format!("{}:{name}={}:{value}\n", name.len(), value.len()));
        }
        Fingerprint(Digest::of(text.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_cannot_run_into_each_other() {
        let one = |entries: &[(&str, &str)]| {
            let mut components = Components::default();
            entries.iter().for_each(|(name, value)| components.set(*name, *value));
            components.fingerprint()
        };
        assert_ne!(one(&[("a", "1\n1:b=1:2")]), one(&[("a", "1"), ("b", "2")]));
        assert_eq!(one(&[("a", "1"), ("b", "2")]), one(&[("b", "2"), ("a", "1")]));
    }
}
