//! `python`: a table that a function in a file makes of the rows of another. A short runner calls it; all else is
//! as with any program.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::programs::plan;
use crate::stages::programs::program::{self, Program, Shared};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::command::Exchange;
use proofmill_pipeline::kinds::python::{CallBy, Python};

const KIND: &str = "python";
const INTERPRETER: &str = "python3";
/// The exit code of the runner that called the function for all rows, whatever else ends with 0.
const ALL_DONE: i32 = 43;
const RUNNER: &str = include_str!("../programs/runner.py");
/// Rows of one call where it is not said, and of one write to the runner.
const BATCH_ROWS: u32 = 1024;

impl Kind for Python {
    fn traits(&self) -> Traits {
        Traits {
            version: 2,
            rows_can_fail: true,
            has_partitions: false,
            settings: Counted::ByTheKind,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, components, diagnostics, files, .. } = context;
        let shared = Shared {
            kind: KIND,
            columns: &self.columns,
            env: &self.env,
            vars: &self.vars,
            memory_mib: self.memory_mib,
        };
        let mut valid = shared.check(diagnostics);
        if self.batch_rows.is_some() && self.by == CallBy::Row {
            let message = "`batch_rows` has no effect with `by: row`".to_owned();
            diagnostics.error(&[KIND, "batch_rows"], Code::UnknownKey, message, None);
            valid = None;
        }
        let interpreter = self.interpreter.as_deref().unwrap_or(INTERPRETER);
        let found = program::find(interpreter, Path::new("."));
        let found = found.map_err(|(message, help)| {
            diagnostics.error(&[KIND, "interpreter"], Code::ProgramMissing, message, help);
        });
        let own = (vec![KIND.to_owned(), "file".to_owned()], self.file.clone());
        let further = self.code.iter().enumerate().map(|(i, path)| {
            (vec![KIND.to_owned(), "code".to_owned(), i.to_string()], path.clone())
        });
        let code = program::code(std::iter::once(own).chain(further).collect(), diagnostics)?;
        files.extend(code.source_files());
        let text = fs::read(&self.file).unwrap_or_default();
        let missing = program::missing_function(&String::from_utf8_lossy(&text), &self.function);
        if let Some(help) = missing {
            let message = format!("`{}` has no function `{}`", self.file, self.function);
            diagnostics.error(&[KIND, "function"], Code::ProgramMissing, message, help);
            valid = None;
        }
        let found = found.ok()?;
        valid?;
        components.set_settings(&Python { memory_mib: None, pure: None, ..self.clone() });
        let batch_rows = self.batch_rows.unwrap_or(BATCH_ROWS);
        let orders = json!({
            "file": self.file,
            "function": self.function,
            "by": self.by,
            "batch_rows": batch_rows,
            "arguments": self.arguments,
            // With `pure`, imports are not checked.
            "declared": self.pure.is_none().then(|| {
                std::iter::once(&self.file).chain(&self.code).collect::<Vec<_>>()
            }),
        });
        let argv = [found.into(), "-c".into(), RUNNER.into(), orders.to_string().into()];
        let program = Program {
            name: self.file.clone(),
            argv: argv.into(),
            folder: ".".into(),
            exchange: if self.by == CallBy::Arrow { Exchange::Arrow } else { Exchange::Jsonl },
            from: inputs.name("from").cloned(),
            inputs: Vec::new(),
            rows_each: batch_rows as usize,
            answers_each_row: true,
            columns: self.columns.clone(),
            code,
            env: self.env.clone(),
            vars: self.vars.clone(),
            memory_mib: self.memory_mib,
            success: ALL_DONE,
        };
        Some(plan::prepared(program, self.pure, true, components))
    }
}
