//! `command`: a table that a program writes.

use std::path::Path;

use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::programs::plan;
use crate::stages::programs::program::{self, Program, Shared};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::command::{Command, Exchange};

const KIND: &str = "command";
/// Rows that a program is fed at once: of JSON little, so that it can begin early.
const LINES_EACH: usize = 1024;
const ROWS_EACH: usize = 8192;

impl Kind for Command {
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
        let valid = shared.check(diagnostics);
        let named = program::inputs(KIND, self.inputs.keys(), diagnostics);
        let folder = Path::new(self.folder.as_deref().unwrap_or("."));
        if !folder.is_dir() {
            let message = format!("there is no folder `{}`", folder.display());
            diagnostics.error(&[KIND, "folder"], Code::ProgramMissing, message, None);
            return None;
        }
        let (name, arguments) = self.run.split_first()?;
        let found = program::find(name, folder).map_err(|(message, help)| {
            diagnostics.error(&[KIND, "run", "0"], Code::ProgramMissing, message, help);
        });
        let declared = self.code.iter().enumerate();
        let declared = declared.map(|(i, path)| {
            (vec![KIND.to_owned(), "code".to_owned(), i.to_string()], path.clone())
        });
        let code = program::code(declared.collect(), diagnostics);
        let (found, code) = (found.ok()?, code?);
        files.extend(code.source_files());
        valid.and(named)?;
        // Limits and whether it may come from the store change nothing in the table.
        components.set_settings(&Command { memory_mib: None, pure: None, ..self.clone() });
        let further = self.inputs.keys().filter_map(|name| {
            Some((name.clone(), inputs.name(&format!("inputs.{name}"))?.clone()))
        });
        let program = Program {
            name: name.clone(),
            argv: std::iter::once(found.into()).chain(arguments.iter().map(Into::into)).collect(),
            folder: folder.to_owned(),
            exchange: self.format,
            from: inputs.name("from").cloned(),
            inputs: further.collect(),
            rows_each: if self.format == Exchange::Jsonl { LINES_EACH } else { ROWS_EACH },
            answers_each_row: false,
            columns: self.columns.clone(),
            code,
            env: self.env.clone(),
            vars: self.vars.clone(),
            memory_mib: self.memory_mib,
            success: 0,
        };
        Some(plan::prepared(program, self.pure, !self.code.is_empty(), components))
    }
}
