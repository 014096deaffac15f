//! Parameters of the pipelines of the tree: one with a closed set of values refuses any other.

use std::fs;
use std::path::{Path, PathBuf};

use proofmill_pipeline::expand::{self, Loader};

use crate::support::Workspace;

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            all.push(path);
        }
    }
}

/// The lines of the `params` of a file, by name.
fn declared(text: &str) -> Vec<(&str, &str)> {
    let Some((_, behind)) = text.split_once("\nparams:\n") else { return Vec::new() };
    let lines = behind.lines().take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
    let lines = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    lines.filter_map(|line| line.trim().split_once(": ")).collect()
}

fn is_closed(declaration: &str) -> bool {
    declaration.starts_with('{') && declaration.contains("one_of: [")
}

/// Reads templates beside the file that uses them.
struct Beside;

impl Loader for Beside {
    fn load(&self, from: &str, path: &str) -> Result<(String, Vec<u8>), String> {
        let path = Path::new(from).parent().unwrap().join(path);
        let bytes = fs::read(&path).map_err(|error| error.to_string())?;
        Ok((path.display().to_string(), bytes))
    }
}

/// Each is told once, at its place, and nothing else is found wrong for it.
#[test]
fn closed_parameters_refuse_what_is_misspelt() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    let (mut all, mut closed) = (Vec::new(), 0);
    files(&folder, &mut all);
    for path in all.iter().filter(|path| path.parent() == Some(&folder)) {
        let text = fs::read_to_string(path).unwrap();
        let names = declared(&text).into_iter().filter(|(_, declaration)| is_closed(declaration));
        let names: Vec<&str> = names.map(|(name, _)| name).collect();
        let given = |name: &&str| ((*name).to_owned(), "no-such-value".to_owned());
        let given: Vec<_> = names.iter().map(given).collect();
        let shown = path.display().to_string();
        let parsed = expand::parse(&shown, text.as_bytes(), &given, &[], &Beside);
        let said: Vec<&str> = parsed.diagnostics.iter().map(|it| it.message.as_str()).collect();
        for name in &names {
            let begins = format!("parameter `{name}` must be ");
            assert!(
                said.iter().any(|said| said.starts_with(&begins)),
                "{shown}: {begins}: {said:?}"
            );
        }
        assert_eq!(said.len(), names.len(), "{shown}: {said:?}");
        closed += names.len();
    }
    assert!(closed > 100, "{closed} closed parameters");
}

/// SQL that asks `'${params.x}' = 'a'` does something else for each value, and nothing at all for one that is misspelt.
#[test]
fn parameters_that_sql_compares_with_texts_are_closed() {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines"), &mut all);
    let mut compared = 0;
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        let declared = declared(&text);
        for (at, _) in text.match_indices("'${params.") {
            let Some((name, behind)) = text[at + "'${params.".len()..].split_once('}') else {
                continue;
            };
            // Otherwise it is a part of a longer text.
            let Some(behind) = behind.strip_prefix('\'').map(str::trim_start) else { continue };
            let literal = ["= '", "<> '", "IN ('", "NOT IN ('"]
                .iter()
                .find_map(|operator| behind.strip_prefix(operator))
                .is_some_and(|rest| !rest.starts_with('\''));
            if !literal && !text[..at].trim_end().ends_with("CASE") {
                continue;
            }
            let declaration = declared.iter().find(|(declared, _)| *declared == name);
            let declaration = declaration.unwrap_or_else(|| panic!("{}: {name}", path.display()));
            assert!(
                is_closed(declaration.1),
                "{}: `{name}` is compared with a text and says no `one_of`",
                path.display()
            );
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} comparisons");
}

#[test]
fn a_parameter_takes_what_it_declares() {
    let workspace = Workspace::with(
        "pipeline: p
params:
  way: { one_of: [near, far] }
  steps: { default: 2, min: 1, max: 9 }
  shares: { default: [0.5], min: 0, max: 1 }
stages:
  t: { sql: \"SELECT '${params.way}' AS way, ${params.steps} AS steps\" }
",
    );
    let run = |params: &[&str]| {
        let args = params.iter().flat_map(|param| ["--param", param]);
        workspace.proofmill(&["run", "p.yaml"].into_iter().chain(args).collect::<Vec<_>>())
    };
    run(&[]).expect(3).says("parameter `way` has no value");
    run(&["way=nera"]).expect(3).says("p.yaml:3:8").says("did you mean `near`?");
    run(&["way=far", "steps=0"]).expect(3).says("parameter `steps` must be from 1 to 9");
    run(&["way=far", "steps=2.5"]).expect(3).says("must be a whole number, found `2.5`");
    run(&["way=far", "shares=0.1,2"]).expect(3).says("must be from 0 to 1, found the number 2");
    run(&["way=far", "steps=3", "shares=0.1,1"]).expect(0);
    assert_eq!(workspace.sql("SELECT * FROM t")[0]["steps"], 3);
}
