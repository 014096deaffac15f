//! SQL functions, and what each does.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::session::engine_functions;
use crate::views::section::{Section, View};
use proofmill_udfs::definition::{Argument, Doc};

/// Our functions.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct FunctionsView(Vec<FunctionView>);

/// One of our functions.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionView {
    name: &'static str,
    syntax: String,
    returns: &'static str,
    description: &'static str,
    arguments: Vec<ArgumentLine>,
    example: ExampleLines,
    version: u32,
    #[serde(skip)]
    doc: &'static Doc,
}

#[derive(Clone, Debug, Serialize)]
struct ArgumentLine {
    name: &'static str,
    #[serde(rename = "type")]
    kind: String,
    optional: bool,
    repeated: bool,
    description: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct ExampleLines {
    sql: &'static str,
    result: &'static str,
}

impl FunctionsView {
    /// All of them, by name.
    pub fn all() -> Self {
        Self(proofmill_udfs::docs().into_iter().map(FunctionView::from).collect())
    }

    /// The function of this name, in small letters.
    pub fn find(self, name: &str) -> Option<FunctionView> {
        self.0.into_iter().find(|function| function.name == name)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|function| function.name)
    }
}

impl From<&'static Doc> for FunctionView {
    fn from(doc: &'static Doc) -> Self {
        let argument = |argument: &'static Argument| ArgumentLine {
            name: argument.name,
            kind: argument.kind.expected(),
            optional: argument.optional,
            repeated: argument.repeated,
            description: argument.description,
        };
        Self {
            name: doc.name,
            syntax: doc.syntax(),
            returns: doc.returns,
            description: doc.description,
            arguments: doc.arguments.iter().map(argument).collect(),
            example: ExampleLines { sql: doc.example.sql, result: doc.example.result.trim() },
            version: doc.version,
            doc,
        }
    }
}

impl View for FunctionsView {
    fn sections(&self) -> Vec<Section> {
        let line = |it: &FunctionView| {
            format!("{} → {}\n    {}\n", it.syntax, it.returns, it.doc.summary())
        };
        vec![Section::Text(self.0.iter().map(line).collect())]
    }
}

impl View for FunctionView {
    fn sections(&self) -> Vec<Section> {
        vec![Section::Text(format!("{}\n\n{}", self.name, self.doc.markdown()))]
    }
}

/// A function of DataFusion's own.
#[derive(Clone, Debug, Serialize)]
pub struct EngineFunctionView {
    name: String,
    /// `None` where DataFusion says no more than the name.
    documentation: Option<String>,
}

impl EngineFunctionView {
    /// All of them, by all of their names.
    pub fn all() -> BTreeMap<String, Self> {
        let view =
            |(name, documentation): (String, _)| (name.clone(), Self { name, documentation });
        engine_functions().into_iter().map(view).collect()
    }
}

impl View for EngineFunctionView {
    fn sections(&self) -> Vec<Section> {
        let Self { name, documentation } = self;
        vec![Section::Text(match documentation {
            Some(text) => format!("{name}\n\n{text}"),
            None => format!("{name}: a DataFusion function without documentation\n"),
        })]
    }
}
