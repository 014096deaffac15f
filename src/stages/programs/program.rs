//! A program that a stage runs, checked as far as that goes before anything runs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use proofmill_base::ids::{StageName, is_name};
use proofmill_base::suggest;
use proofmill_files::ERROR_FIELD;
use proofmill_pipeline::code::Code as ErrorCode;
use proofmill_pipeline::kinds::command::{Exchange, OutputColumn};

use crate::stages::diagnostics::Diagnostics;
use crate::stages::programs::code::Code;
use crate::stages::programs::memory;

/// What variables of ours begin with.
const OURS: &str = "PROOFMILL_";

/// A program that a stage runs.
#[derive(Debug)]
pub struct Program {
    /// What messages call it.
    pub name: String,
    /// The program, found, and its arguments.
    pub argv: Vec<OsString>,
    pub folder: PathBuf,
    pub exchange: Exchange,
    /// The stage that it reads.
    pub from: Option<StageName>,
    /// Further ones, which are files.
    pub inputs: Vec<(String, StageName)>,
    /// Rows that it is fed at once.
    pub rows_each: usize,
    /// Whether it gives about a row for each that it gets.
    pub answers_each_row: bool,
    pub columns: IndexMap<String, OutputColumn>,
    pub code: Code,
    pub env: Vec<String>,
    pub vars: IndexMap<String, String>,
    pub memory_mib: Option<u64>,
    /// The exit code with which it says that all went well.
    pub success: i32,
}

/// The settings that `command` and `python` share.
#[derive(Clone, Copy)]
pub struct Shared<'s> {
    pub kind: &'static str,
    pub columns: &'s IndexMap<String, OutputColumn>,
    pub env: &'s [String],
    pub vars: &'s IndexMap<String, String>,
    pub memory_mib: Option<u64>,
}

impl Shared<'_> {
    /// Checks them, with a diagnostic for each error; `None` if there is one.
    pub fn check(&self, diagnostics: &mut Diagnostics<'_>) -> Option<()> {
        let mut valid = true;
        for name in self.columns.keys() {
            if name.is_empty() || name.starts_with('$') || name.chars().any(char::is_control) {
                let message = format!("`{}` cannot be the name of a column", name.escape_debug());
                let help =
                    format!("`{ERROR_FIELD}` and other names with `$` are reserved for errors");
                valid = wrong(diagnostics, &[self.kind, "columns", name], message, &help);
            }
        }
        let is_variable = |name: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            !name.is_empty()
                && name.chars().all(is_part)
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        let listed = self
            .env
            .iter()
            .enumerate()
            .map(|(i, name)| (vec!["env".to_owned(), i.to_string()], name));
        let given = self.vars.keys().map(|name| (vec!["vars".to_owned(), name.clone()], name));
        for (path, name) in listed.chain(given) {
            let path = path.iter().map(String::as_str);
            let steps: Vec<&str> = [self.kind].into_iter().chain(path).collect();
            if !is_variable(name) {
                let message =
                    format!("`{}` is not the name of an environment variable", name.escape_debug());
                valid = wrong(
                    diagnostics,
                    &steps,
                    message,
                    "use letters, digits and `_`; put values in `vars`",
                );
            } else if name.starts_with(OURS) {
                let message = format!("`{name}` is reserved for proofmill");
                valid = wrong(
                    diagnostics,
                    &steps,
                    message,
                    "use a name that does not begin with `PROOFMILL_`",
                );
            }
        }
        for (i, name) in self.env.iter().enumerate() {
            let twice = self.vars.contains_key(name) || self.env[..i].contains(name);
            if twice {
                let message = format!("`{name}` is given twice");
                valid = wrong(
                    diagnostics,
                    &[self.kind, "env", &i.to_string()],
                    message,
                    "keep one of them",
                );
            } else if is_variable(name)
                && !name.starts_with(OURS)
                && std::env::var_os(name).is_none()
            {
                // What is in the store needs none.
                let message = format!("the environment variable `{name}` is not set");
                let help = "the stage fails without it if it has to be computed".to_owned();
                let steps = [self.kind, "env", &i.to_string()];
                diagnostics.warning(&steps, ErrorCode::ProgramMissing, message, Some(help));
            }
        }
        if self.memory_mib.is_some() && !memory::is_known() {
            let message = "this system does not report the memory use of programs".to_owned();
            let help = "leave `memory_mib` out; it needs the `/proc` of Linux".to_owned();
            let steps = [self.kind, "memory_mib"];
            diagnostics.error(&steps, ErrorCode::WrongValue, message, Some(help));
            valid = false;
        }
        valid.then_some(())
    }
}

/// Reports a value that is not accepted; false.
fn wrong(diagnostics: &mut Diagnostics<'_>, steps: &[&str], message: String, help: &str) -> bool {
    diagnostics.error(steps, ErrorCode::WrongValue, message, Some(help.to_owned()));
    false
}

/// The digests of declared files; `steps` lead to the setting that each is from.
pub fn code(
    declared: Vec<(Vec<String>, String)>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Code> {
    let (steps, paths): (Vec<Vec<String>>, Vec<String>) = declared.into_iter().unzip();
    Code::read(paths)
        .map_err(|error| {
            let steps: Vec<&str> =
                steps.get(error.at()).into_iter().flatten().map(String::as_str).collect();
            let help = "paths are relative to the working directory".to_owned();
            let message = error.to_string();
            diagnostics.error(&steps, ErrorCode::ProgramMissing, message, Some(help));
        })
        .ok()
}

/// Finds a program as a shell does that stands in `folder`.
///
/// # Errors
///
/// Why it is not found, and what to do.
pub fn find(program: &str, folder: &Path) -> Result<PathBuf, (String, Option<String>)> {
    if program.contains('/') {
        let path = std::path::absolute(folder.join(program)).unwrap_or_default();
        return match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => Err((format!("`{program}` is a folder"), None)),
            Ok(meta) if meta.permissions().mode() & 0o111 == 0 => Err((
                format!("`{program}` is not executable"),
                Some(format!("`chmod +x {program}`, or name its interpreter first")),
            )),
            Ok(_) => Ok(path),
            Err(_) => Err((format!("there is no program `{program}`"), folder_help(folder))),
        };
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(found) = folders.iter().map(|folder| folder.join(program)).find(is_program) {
        return Ok(std::path::absolute(&found).unwrap_or(found));
    }
    let help = match folder.join(program).exists() {
        true => Some(format!("for the file of that name, write `./{program}`")),
        false => Some("install it, or give its path".to_owned()),
    };
    Err((format!("there is no program `{program}` in `PATH`"), help))
}

fn folder_help(folder: &Path) -> Option<String> {
    let folder = std::path::absolute(folder).ok()?;
    Some(format!("a path with `/` is looked up from `{}`", folder.display()))
}

/// An error for each further input whose name no variable can have.
pub fn inputs<'n>(
    kind: &str,
    names: impl Iterator<Item = &'n String>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let mut valid = true;
    for name in names.filter(|name| !is_name(name)) {
        let message = format!("`{}` is not a name", name.escape_debug());
        let help = "use a lower-case letter, then up to 63 lower-case letters, digits or `_`";
        let steps = [kind, "inputs", name];
        diagnostics.error(&steps, ErrorCode::InvalidName, message, Some(help.to_owned()));
        valid = false;
    }
    valid.then_some(())
}

/// The functions and other names that a Python file may define, for suggestions; `None` if `function` is one of
/// them, or stands anywhere in the file, as names that are made when it runs do.
pub fn missing_function(text: &str, function: &str) -> Option<Option<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let stands = text.split(|c: char| !is_part(c)).any(|word| word == function);
    if stands {
        return None;
    }
    let defined = text.lines().filter_map(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("def ")?.split(|c: char| !is_part(c)).next()
    });
    let defined: Vec<&str> = defined.collect();
    Some(suggest::help(function, defined.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_missed_only_where_its_name_stands_nowhere() {
        let text = "import x\ndef score(row):\n    pass\nasync def other(row): pass\nmade = x.y\n";
        assert_eq!(missing_function(text, "score"), None);
        assert_eq!(missing_function(text, "made"), None);
        let help = missing_function(text, "scored").unwrap().unwrap();
        assert!(help.contains("did you mean `score`?"), "{help}");
        assert!(missing_function("", "score").is_some());
    }
}
