//! Names of columns in `tests:`, found before a test runs; those of stages the graph has found.

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;

use crate::stages::plan::Prepared;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::node::{Key, Node, Value};

/// All columns in tests that their stages do not have.
pub fn check(prepared: &Prepared, diagnostics: &mut Vec<Diagnostic>) {
    // A stage with a diagnostic of its own has no columns to compare with.
    if !diagnostics.is_empty() {
        return;
    }
    for (i, (_, node)) in prepared.graph.pipeline.tests.iter().enumerate() {
        for side in ["given", "expect"] {
            let path = format!("tests[{i}].{side}");
            for (key, rows) in node.get(side).map(Node::entries).unwrap_or_default() {
                stage(prepared, key, rows, &path, diagnostics);
            }
        }
    }
}

fn stage(prepared: &Prepared, key: &Key, rows: &Node, path: &str, out: &mut Vec<Diagnostic>) {
    let path = format!("{path}.{}", key.name);
    let Some((_, stage)) = prepared.stages.iter().find(|(name, _)| name.as_str() == key.name)
    else {
        return;
    };
    let schema: SchemaRef = stage.table.schema();
    let Value::Seq(rows) = &rows.value else { return };
    for (i, row) in rows.iter().enumerate() {
        for (column, _) in row.entries() {
            if schema.index_of(&column.name).is_err() {
                let names = schema.fields().iter().map(|field| field.name().as_str());
                let message = format!("`{}` has no column `{}`", key.name, column.name);
                let path = format!("{path}[{i}].{}", column.name);
                let help = suggest::help(&column.name, names);
                let diagnostic = Diagnostic::error(Code::UnknownColumn, column.span, path, message);
                out.push(diagnostic.with_help(help));
            }
        }
    }
}
