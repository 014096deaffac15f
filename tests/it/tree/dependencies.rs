//! What we depend on: licences that `.deny.toml` allows, one version of each crate that it names, registry
//! crates only, and nothing that no source names. It is what cargo-deny and cargo-machete would say, but
//! those take longer to build than this program's tests; `.ci/run` asks cargo-deny for vulnerabilities where it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What cargo knows of all packages that `Cargo.lock` names, on every platform.
fn packages() -> Vec<Json> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Json = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn text<'j>(package: &'j Json, key: &str) -> &'j str {
    package[key].as_str().unwrap_or_default()
}

/// The lines of `.deny.toml` between `start` and the next `]`.
fn policy(start: &str) -> Vec<String> {
    let policy = fs::read_to_string(root().join(".deny.toml")).unwrap();
    let lines = policy.lines().skip_while(|line| *line != start).skip(1);
    let lines: Vec<String> = lines.take_while(|line| *line != "]").map(str::to_owned).collect();
    assert!(!lines.is_empty(), "`{start}` is not in .deny.toml");
    lines
}

/// The first text in quotes.
fn quoted(line: &str) -> Option<&str> {
    line.split('"').nth(1)
}

/// True if an SPDX expression leaves a choice that is allowed. `AND` is taken to hold alternatives,
/// as it does wherever both occur.
fn is_allowed(licence: &str, allowed: &[String]) -> bool {
    let licence = licence.replace('/', " OR ");
    let choice = |part: &str| {
        let mut choices = part.split(" OR ").map(|it| it.trim_matches(['(', ')', ' ']));
        choices.any(|choice| allowed.iter().any(|it| it == choice))
    };
    !licence.is_empty() && licence.split(" AND ").all(choice)
}

#[test]
fn licences_and_sources_are_those_of_the_policy() {
    let allowed: Vec<String> =
        policy("allow = [").iter().filter_map(|line| quoted(line)).map(str::to_owned).collect();
    let mut errors = Vec::new();
    for package in packages() {
        let (name, licence) = (text(&package, "name"), text(&package, "license"));
        if !is_allowed(licence, &allowed) {
            errors.push(format!("{name}: the licence `{licence}` is not in .deny.toml"));
        }
        let source = text(&package, "source");
        if !source.is_empty() && !source.starts_with("registry+") {
            errors.push(format!("{name}: comes from `{source}`, not from the registry"));
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

#[test]
fn there_is_one_version_of_what_crosses_borders() {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages() {
        let version = text(&package, "version").to_owned();
        versions.entry(text(&package, "name").to_owned()).or_default().push(version);
    }
    for line in policy("deny = [").iter().filter(|line| line.contains("crate = ")) {
        let name = quoted(line).unwrap();
        let found = versions.get(name).map_or(&[][..], Vec::as_slice);
        let allowed = usize::from(line.contains("deny-multiple-versions"));
        assert!(found.len() <= allowed, "{name}: {found:?}, and .deny.toml allows {allowed}");
    }
}

/// Adds the sources of the package at `folder`; a folder with a `Cargo.toml` is another package.
fn sources(folder: &Path, out: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_another =
            path.join("Cargo.toml").exists() || name == "target" || name.starts_with('.');
        if path.is_dir() && !is_another {
            sources(&path, out);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            code.for_each(|line| *out += &format!("{line}\n"));
        }
    }
}

/// True if a text has this word.
fn names(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

#[test]
fn every_dependency_is_named_by_the_sources_of_its_package() {
    let mut errors = Vec::new();
    for package in packages().iter().filter(|package| package["source"].is_null()) {
        let folder = Path::new(text(package, "manifest_path")).parent().unwrap();
        let mut code = String::new();
        sources(folder, &mut code);
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["rename"].as_str().unwrap_or(text(dependency, "name"));
            if !names(&code, &name.replace('-', "_")) {
                errors.push(format!("{}: nothing names `{name}`", text(package, "name")));
            }
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

#[test]
fn expressions_of_licences_are_understood() {
    let allowed = ["MIT", "Apache-2.0", "ISC"].map(str::to_owned);
    for good in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/Apache-2.0", "(MIT OR GPL-3.0) AND ISC"] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "MIT-0"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
