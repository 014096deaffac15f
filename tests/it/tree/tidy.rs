//! Properties of the source tree: layers, who may name which library, file length, headers, links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tree::circles;

/// Lower layers first. A module may name only modules in strictly lower layers.
const LAYERS: &[&[&str]] = &[
    &["base"],
    &["draw", "settings"],
    &["console", "pipeline", "retrieval", "sqltext", "store"],
    &["catalog", "files", "graph", "ledger", "relay"],
    &["audit", "gate", "memory", "models", "schedule"],
    &["session"],
    &["stages"],
    &["run"],
    &["diff", "system", "trace"],
    &["report"],
    &["host", "views"],
    &["cli"],
    &["reference"],
    &["lib", "main"],
];
/// The modules of `src` that are crates of their own: named `proofmill_<module>` from outside.
const CRATES: &[&str] = &[
    "audit",
    "base",
    "catalog",
    "files",
    "ledger",
    "pipeline",
    "retrieval",
    "schedule",
    "settings",
    "store",
];
/// The same for `udfs/engine/src`.
const ENGINE_LAYERS: &[&[&str]] = &[
    &["request", "rng"],
    &["checkpoint", "options"],
    &["backend"],
    &["cpu", "cuda", "network", "decode"],
    &["architecture", "schedule"],
    &["model"],
    &["lib"],
];
/// Libraries that only some modules may name.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("serde_yaml", &["pipeline"]),
    ("granit_parser", &["pipeline"]),
    ("ed25519_dalek", &["audit"]),
    ("chrono_tz", &["schedule"]),
    ("croner", &["schedule"]),
    ("getrandom", &["cli"]),
    ("lettre", &["host"]),
    ("reqwest", &["host"]),
    ("tantivy", &["retrieval"]),
    ("clap", &["cli", "reference"]),
    ("comfy_table", &["draw", "report"]),
    (
        "datafusion",
        &[
            "sqltext",
            "session",
            "stages",
            "run",
            "diff",
            "system",
            "trace",
            "cli",
            "report",
            "reference",
        ],
    ),
    ("object_store", &["store", "session", "host"]),
    ("tracing", &["relay", "models", "stages", "run", "report", "cli"]),
    ("tracing_subscriber", &["cli"]),
    (
        "tokio",
        &[
            "base", "store", "ledger", "relay", "memory", "models", "schedule", "stages", "run",
            "host", "cli",
        ],
    ),
    ("parquet", &["store", "ledger", "files", "stages"]),
];
/// Longest file, in lines before its tests.
const FILE_LINES_MAX: usize = 600;

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn files(dir: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, extension, out);
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
}

fn rust_files(dirs: &[&str]) -> Vec<PathBuf> {
    let mut out = Vec::new();
    dirs.iter().for_each(|dir| files(&root().join(dir), "rs", &mut out));
    assert!(out.len() > 50, "the tree has moved");
    out
}

/// The module of `src/` that a file belongs to.
fn module(path: &Path) -> String {
    module_in("src", path)
}

/// The module of `folder` that a file belongs to.
fn module_in(folder: &str, path: &Path) -> String {
    let relative = path.strip_prefix(root().join(folder)).unwrap();
    let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

fn rank(layers: &[&[&str]], module: &str) -> usize {
    layers
        .iter()
        .position(|layer| layer.contains(&module))
        .unwrap_or_else(|| panic!("`{module}` has no layer: add it to LAYERS or ENGINE_LAYERS"))
}

/// The code of a file without comments, line by line.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.map(|(n, line)| (n + 1, line.to_owned())).collect()
}

#[test]
fn modules_name_only_lower_layers() {
    let mut errors = upward("src", LAYERS);
    errors.extend(upward("udfs/engine/src", ENGINE_LAYERS));
    for path in rust_files(&["src"]) {
        for (n, line) in code(&path) {
            if line.contains("super::super") {
                errors
                    .push(format!("{}:{n}: write `crate::…`, not `super::super`", path.display()));
            }
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

/// Lines of the files of `folder` that name a module of their own layer or of a higher one. Inside a
/// crate, `crate::` names its own modules, and its manifest says what it may name.
fn upward(folder: &str, layers: &[&[&str]]) -> Vec<String> {
    let mut errors = Vec::new();
    for path in rust_files(&[folder]) {
        let own = module_in(folder, &path);
        let is_crate = folder == "src" && CRATES.contains(&own.as_str());
        let roots: &[&'static str] = match (folder, is_crate) {
            ("src", true) => &["proofmill_"],
            ("src", false) => &["crate::", "proofmill_"],
            _ => &["crate::"],
        };
        for (n, line) in code(&path) {
            let named = |root: &'static str| line.split(root).skip(1).map(move |tail| (root, tail));
            for (root, tail) in roots.iter().copied().flat_map(named) {
                let used: String =
                    tail.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let beside = root == "proofmill_" && !CRATES.contains(&used.as_str());
                if used.is_empty() {
                    errors.push(format!(
                        "{}:{n}: one `use crate::module` per module",
                        path.display()
                    ));
                } else if !beside && used != own && rank(layers, &used) >= rank(layers, &own) {
                    errors.push(format!("{}:{n}: `{own}` may not use `{used}`", path.display()));
                }
            }
        }
    }
    errors
}

#[test]
fn libraries_stay_in_their_modules() {
    let mut errors = Vec::new();
    for path in rust_files(&["src"]) {
        let own = module(&path);
        for (n, line) in code(&path) {
            for (library, allowed) in LIBRARIES {
                if line.contains(&format!("{library}::"))
                    && own != "main"
                    && !allowed.contains(&own.as_str())
                {
                    errors
                        .push(format!("{}:{n}: `{own}` may not name `{library}`", path.display()));
                }
            }
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

/// What plans a query before a run has to count the functions that it calls: `Diagnostics` does.
#[test]
fn stages_plan_in_one_place() {
    // Checks are no part of a table, nor is what is asked of tables after a run; what is repeated was planned
    // by `Diagnostics` before.
    let allowed = [
        "src/stages/diagnostics.rs",
        "src/stages/checks.rs",
        "src/stages/queries/prepared_query.rs",
        "src/stages/tables/query.rs",
    ];
    for path in rust_files(&["src"]) {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("src/stages") || allowed.contains(&name.as_str()) {
            continue;
        }
        for (n, line) in code(&path) {
            let plans = ["session::query(", "session::expression(", "session::planned_expression("];
            let found = plans.iter().find(|call| line.contains(**call));
            assert!(
                found.is_none(),
                "{name}:{n}: plan with `Diagnostics::query` or `Diagnostics::expression`"
            );
        }
    }
}

#[test]
fn only_the_console_writes_to_standard_streams() {
    let hints = [
        "println!",
        "print!",
        "eprint!",
        "dbg!",
        "stdout()",
        "stderr()",
        "io::Stdout",
        "io::Stderr",
        "/dev/tty",
        "/dev/std",
        "set_hook",
    ];
    let console = root().join("src/console.rs");
    let may_trust = ["base/styled.rs", "draw/tree.rs", "pipeline/diagnostic.rs", "cli/start.rs"];
    let mut errors = Vec::new();
    for path in rust_files(&["src", "udfs"]) {
        // Tests and benchmarks are run by people who wrote what they print; a build script speaks to cargo.
        let is_test = ["tests", "benches"].iter().any(|dir| path.iter().any(|part| part == *dir));
        if is_test || path == console || path == root().join("src/build.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let tests = text.find("#[cfg(test)]\nmod").unwrap_or(text.len());
        let last = text[..tests].lines().count();
        for (n, line) in code(&path).into_iter().filter(|(n, _)| *n <= last) {
            if hints.iter().any(|hint| line.contains(hint)) {
                errors.push(format!("{}:{n}: say it through `console`", path.display()));
            }
            let trusts = line.contains("Styled::drawn(");
            if trusts && !may_trust.iter().any(|file| path.ends_with(file)) {
                errors.push(format!("{}:{n}: may not call a text styled", path.display()));
            }
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

/// What a test leaves out is written past the test runner, which keeps what a passing test prints to itself, and with
/// the word that the last step of `.ci/run` counts.
#[test]
fn skipped_tests_are_seen() {
    let mut errors = Vec::new();
    let mut paths = rust_files(&["src", "udfs", "tests"]);
    // A benchmark is run by who reads what it prints.
    paths.retain(|path| !path.iter().any(|part| part == "benches"));
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        for (n, line) in text.lines().enumerate() {
            let said = line.split("println!(\"").nth(1).unwrap_or_default().to_lowercase();
            if said.starts_with("skipped") {
                let help = "write `SKIPPED: …` to `std::io::stderr()`";
                errors.push(format!("{}:{}: {help}", path.display(), n + 1));
            }
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

#[test]
fn functions_know_nothing_of_the_product() {
    for path in rust_files(&["src", "udfs/src"]) {
        if path.starts_with(root().join("udfs")) {
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains("proofmill::"), "{} names the product", path.display());
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut errors = Vec::new();
    for path in rust_files(&["src", "udfs", "tests"]) {
        let text = fs::read_to_string(&path).unwrap();
        if !text.starts_with("//!") {
            errors.push(format!("{}: no `//!` header", path.display()));
        }
        let lines = text.split("#[cfg(test)]\nmod").next().unwrap().lines().count();
        if lines > FILE_LINES_MAX {
            errors.push(format!("{}: {lines} lines, more than {FILE_LINES_MAX}", path.display()));
        }
        let is_mod = path.file_name().is_some_and(|name| name == "mod.rs");
        if is_mod && path.starts_with(root().join("src")) && text.contains("\npub fn ") {
            errors.push(format!("{}: `mod.rs` only declares", path.display()));
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

/// Names that two public types of a crate share: the memory of a backend, as the trait of backends calls it.
const TWINS: [&str; 4] = ["Cache", "Matrix", "Tensor", "Vector"];

#[test]
fn public_types_have_names_of_their_own() {
    for folder in circles::crates() {
        let (mut sources, mut seen) = (Vec::new(), BTreeMap::new());
        circles::sources(&folder, &mut sources);
        let types = sources.iter().flat_map(|path| {
            let found = code(path).into_iter().filter_map(|(_, line)| public_type(&line));
            found.map(move |name| (name, path)).collect::<Vec<_>>()
        });
        for (name, path) in types.filter(|(name, _)| !TWINS.contains(&name.as_str())) {
            if let Some(other) = seen.insert(name.clone(), path) {
                panic!("{name} is a type of {} and of {}", other.display(), path.display());
            }
        }
        assert!(!seen.is_empty(), "{} has moved", folder.display());
    }
}

/// The name of the type that a line declares for the whole crate or for others.
fn public_type(line: &str) -> Option<String> {
    let rest = line.trim_start();
    let rest = rest.strip_prefix("pub ").or_else(|| rest.strip_prefix("pub(crate) "))?;
    let declared = ["struct ", "enum ", "trait ", "type "].iter();
    let declared = declared.filter_map(|word| rest.strip_prefix(word)).next()?;
    Some(declared.chars().take_while(|c| c.is_alphanumeric()).collect())
}

/// What the top level holds beside hidden files, and what builds and runs leave there.
const TOP_LEVEL: [&str; 12] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "data",
    "docs",
    "pipelines",
    "proofmill-store",
    "src",
    "target",
    "tests",
    "udfs",
];

#[test]
fn the_top_level_holds_nothing_else() {
    for entry in fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(name.starts_with('.') || TOP_LEVEL.contains(&name.as_str()), "`{name}` is stray");
    }
}

#[test]
fn links_between_documents_hold() {
    let mut documents = vec![root().join("README.md")];
    for dir in ["docs", "pipelines", "data"] {
        files(&root().join(dir), "md", &mut documents);
    }
    let mut errors = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|tail| tail.split(')').next()) {
            let target = link.split('#').next().unwrap();
            let remote = target.contains("://") || target.is_empty();
            if !remote && !document.parent().unwrap().join(target).exists() {
                errors.push(format!("{}: `{link}` leads nowhere", document.display()));
            }
        }
    }
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

#[test]
fn nothing_names_a_machine() {
    let mut texts = rust_files(&["src", "udfs", "tests"]);
    for dir in ["docs", "pipelines", "data", "tests"] {
        for extension in ["md", "yaml", "py"] {
            files(&root().join(dir), extension, &mut texts);
        }
    }
    texts.push(root().join("README.md"));
    let for_readers = |path: &Path| path.extension().is_some_and(|it| it == "md" || it == "yaml");
    for path in texts.iter().filter(|path| !path.ends_with("tidy.rs")) {
        let text = fs::read_to_string(path).unwrap();
        let mut hints = vec!["/root/", "/work/", "crates.io", "pypi.org"];
        if for_readers(path) && !path.starts_with(root().join("tests")) {
            // Readers do not have it.
            hints.push("../shared");
        }
        for hint in hints {
            assert!(!text.contains(hint), "{} names `{hint}`", path.display());
        }
    }
}

/// Words that `docs/STYLE.md` replaces, and how often the sources of the product still have them, legitimate uses included.
/// A number may only fall: whoever removes some lowers it here.
const OLD_WORDS: [(&str, usize); 11] = [
    ("mistake", 3),
    ("sound", 7),
    ("misfit", 5),
    ("told", 48),
    ("asked", 47),
    ("outcome", 258),
    ("gather", 11),
    ("family", 98),
    ("worth", 102),
    ("whoever", 0),
    ("nobody", 4),
];

#[test]
fn old_words_only_become_fewer() {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for path in rust_files(&["src", "udfs"]) {
        if path.iter().any(|part| part == "tests" || part == "benches") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap().to_lowercase();
        for word in text.split(|c: char| !c.is_ascii_alphabetic()) {
            let known =
                OLD_WORDS.iter().find(|(old, _)| word.strip_suffix('s').unwrap_or(word) == *old);
            if let Some((old, _)) = known {
                *found.entry(old).or_default() += 1;
            }
        }
    }
    let found = OLD_WORDS.map(|(old, _)| (old, found.get(old).copied().unwrap_or_default()));
    assert_eq!(found, OLD_WORDS, "more of a word, or fewer than this list has");
}
