//! Broken pipeline files: each mistake is reported once, at its place, in the words we chose.
//!
//! A case is a file of `tests/cases/broken/`. Lines at its end say what must be reported:
//! `#! line:column CODE message`, with `file:` before the line for a mistake in a template. Below
//! such a line, `#!   help: …` may say what the help must hold. Fragments suffice for both, and
//! nothing rewrites them: whoever changes a message changes the cases.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::support::Workspace;

/// Fewest cases: a smaller number means that the folder has moved.
const CASES_MIN: usize = 70;
/// Longest message: what fits on two lines of a terminal.
const MESSAGE_CHARS_MAX: usize = 200;
/// What `check` exits with for a pipeline that has mistakes.
const EXIT_PIPELINE: i32 = 3;

/// One line of a case, and what the program reports.
struct Mistake {
    file: String,
    line: u64,
    column: u64,
    code: String,
    message: String,
    help: Option<String>,
}

impl Mistake {
    fn key(&self) -> (&str, u64, u64, &str) {
        (&self.file, self.line, self.column, &self.code)
    }

    /// True if `found` is this mistake, in words that hold ours.
    fn is(&self, found: &Self) -> bool {
        let helps = |wanted: &String| found.help.as_ref().is_some_and(|help| help.contains(wanted));
        self.key() == found.key()
            && found.message.contains(&self.message)
            && self.help.as_ref().is_none_or(helps)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{} {} {}", self.file, self.line, self.column, self.code, self.message)?;
        self.help.iter().try_for_each(|help| write!(f, " (help: {help})"))
    }
}

/// Codes of what is only worth a look: no mistake, and so no case here.
const WARNINGS: [&str; 3] = ["E0404", "E0405", "E0407"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/broken")
}

fn proofmill(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_proofmill"))
        .current_dir(folder())
        .env("NO_COLOR", "1")
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .args(args)
        .output()
        .unwrap()
}

fn cases() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let yaml = entries.filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    let mut names: Vec<_> =
        yaml.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert!(names.len() >= CASES_MIN, "{} cases, expected {CASES_MIN} or more", names.len());
    names
}

/// What the lines at the end of the case `name` expect.
fn expected(name: &str) -> Vec<Mistake> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let mut mistakes: Vec<Mistake> = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("#!")) {
        if let Some(help) = line.trim_start().strip_prefix("help: ") {
            let last = mistakes.last_mut().unwrap_or_else(|| panic!("{name}: help for nothing"));
            last.help = Some(help.to_owned());
            continue;
        }
        let parsed = parse(name, line.trim_start());
        mistakes.push(parsed.unwrap_or_else(|| panic!("{name}: cannot read `#!{line}`")));
    }
    mistakes
}

fn parse(name: &str, line: &str) -> Option<Mistake> {
    let (place, rest) = line.split_once(' ')?;
    let (code, message) = rest.split_once(' ')?;
    let mut place = place.rsplitn(3, ':');
    let (column, line) = (place.next()?.parse().ok()?, place.next()?.parse().ok()?);
    Some(Mistake {
        file: place.next().unwrap_or(name).to_owned(),
        line,
        column,
        code: code.to_owned(),
        message: message.to_owned(),
        help: None,
    })
}

/// What `check` reports for the case `name`.
fn reported(name: &str) -> Vec<Mistake> {
    let output = proofmill(&["check", "--json", name]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(EXIT_PIPELINE), "{name}: {stderr}");
    let all: Vec<Json> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {stderr}"));
    all.iter().map(mistake).collect()
}

fn mistake(json: &Json) -> Mistake {
    let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| json[key].as_u64().unwrap_or_default();
    assert!(json["path"].is_string(), "no path: {json}");
    assert_eq!(json["severity"], "error", "{json}");
    Mistake {
        file: text("file"),
        line: number("line"),
        column: number("column"),
        code: text("code"),
        message: text("message"),
        help: json["help"].as_str().map(str::to_owned),
    }
}

/// What is reported and not expected, and the reverse, as lines.
fn differences(name: &str) -> Vec<String> {
    let (expected, mut reported) = (expected(name), reported(name));
    let mut lines = Vec::new();
    for wanted in &expected {
        match reported.iter().position(|found| wanted.is(found)) {
            Some(at) => drop(reported.remove(at)),
            None => lines.push(format!("{name}\n  expected {wanted}")),
        }
    }
    lines.extend(reported.iter().map(|found| format!("{name}\n  reported {found}")));
    lines
}

/// The codes that `proofmill explain` lists.
fn codes() -> BTreeSet<String> {
    let output = proofmill(&["explain"]);
    let listed = String::from_utf8(output.stdout).unwrap();
    listed.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn every_mistake_is_reported_once_and_at_its_place() {
    let differences: Vec<_> = cases().iter().flat_map(|name| differences(name)).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_case_expects_something_and_every_code_has_a_case() {
    let cases = cases();
    let expected: Vec<_> = cases.iter().map(|name| (name, expected(name))).collect();
    for (name, mistakes) in &expected {
        assert!(!mistakes.is_empty(), "{name} expects nothing");
    }
    let used: BTreeSet<_> =
        expected.iter().flat_map(|(_, mistakes)| mistakes).map(|m| m.code.clone()).collect();
    let warned: BTreeSet<_> = WARNINGS.map(str::to_owned).into();
    assert_eq!(used, &codes() - &warned);
}

#[test]
fn messages_are_fragments_and_name_values_in_backticks() {
    let output = proofmill(
        &[&["check", "--json"], cases().iter().map(String::as_str).collect::<Vec<_>>().as_slice()]
            .concat(),
    );
    let all: Vec<Json> = serde_json::from_slice(&output.stdout).unwrap();
    for mistake in all.iter().map(mistake) {
        let first = mistake.message.chars().next().unwrap();
        assert!(!first.is_uppercase(), "starts with a capital: {mistake}");
        assert!(!mistake.message.ends_with('.'), "ends with a stop: {mistake}");
        assert!(!mistake.message.contains('\n'), "has several lines: {mistake}");
        assert!(mistake.message.chars().count() <= MESSAGE_CHARS_MAX, "is too long: {mistake}");
    }
}

#[test]
fn people_see_an_excerpt_of_the_file() {
    for name in ["many_mistakes", "sql_syntax_behind_parameters", "template_with_mistakes"] {
        let output = proofmill(&["check", &format!("{name}.yaml")]);
        assert_eq!(output.status.code(), Some(EXIT_PIPELINE));
        assert!(output.stdout.is_empty(), "mistakes for people belong on standard error");
        let stderr = String::from_utf8(output.stderr).unwrap();
        let stderr = stderr.replace(folder().to_str().unwrap(), "[folder]");
        insta::with_settings!({
            snapshot_path => folder().join("snapshots"),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, { insta::assert_snapshot!(name, stderr) });
    }
}

#[test]
fn every_code_has_a_page() {
    for code in codes() {
        let output = proofmill(&["explain", &code]);
        let page = String::from_utf8(output.stdout).unwrap();
        let lines = page.lines().count();
        assert!(page.starts_with(&format!("# {code}: ")), "{code} has no title");
        assert!((15..=40).contains(&lines), "the page of {code} has {lines} lines");
    }
}

/// Correlated subqueries that the optimizer makes joins of are no mistakes, and give what they say.
#[test]
fn correlated_subqueries_that_become_joins_run() {
    let mut text = String::from(
        "pipeline: p\nstages:\n  \
         a: { sql: \"SELECT * FROM (VALUES (1, 'x'), (2, 'y'), (3, 'z')) AS t(id, name)\" }\n  \
         b: { sql: \"SELECT * FROM (VALUES (1), (3)) AS t(id)\" }\n",
    );
    let cases = [
        ("(SELECT max(b.id) FROM b WHERE b.id = a.id) IS NOT NULL", vec![1, 3]),
        ("EXISTS (SELECT 1 FROM b WHERE b.id < a.id)", vec![2, 3]),
        ("NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id OR a.name = 'y')", vec![]),
        ("id IN (SELECT b.id FROM b WHERE b.id <= a.id)", vec![1, 3]),
        (
            "EXISTS (SELECT 1 FROM b WHERE b.id = a.id AND EXISTS (SELECT 1 FROM a AS c WHERE c.id = b.id))",
            vec![1, 3],
        ),
    ];
    for (n, (condition, _)) in cases.iter().enumerate() {
        text += &format!("  q{n}: {{ sql: \"SELECT id FROM a WHERE {condition} ORDER BY id\" }}\n");
    }
    let workspace = Workspace::with(&text);
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    for (n, (condition, wanted)) in cases.iter().enumerate() {
        let rows = workspace.sql(&format!("SELECT id FROM q{n} ORDER BY id"));
        let ids: Vec<i64> = rows.iter().map(|row| row["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, *wanted, "{condition}");
    }
}
