//! Generated files are current: `docs/reference`, and the versions of what stages compute.

use std::fs;
use std::path::{Path, PathBuf};

use proofmill_base::digest::Digest;

/// What a stage computes is decided by these files. When one of them changes, either the results
/// stay the same, or the version of a kind (`src/stages/components.rs`), of a function, or of the
/// engine (`src/models/card.rs`) is raised.
const BEHAVIOUR: &[(&str, &[&str])] = &[
    ("read", &["src/files", "src/stages/read.rs"]),
    ("memory", &["src/memory/row.rs", "src/memory/state.rs", "src/stages/memory.rs"]),
    ("sql", &["src/session/engine.rs", "src/session/planner.rs", "src/stages/query.rs"]),
    (
        "index",
        &["src/retrieval", "src/stages/index.rs", "src/stages/dense.rs", "src/stages/vectors.rs"],
    ),
    (
        "retrieve",
        &["src/retrieval", "src/stages/retrieve.rs", "src/stages/nearest.rs", "src/stages/vectors.rs"],
    ),
    ("blend", &["src/stages/blend.rs"]),
    ("measure", &["udfs/src/stats", "src/stages/measure.rs", "src/stages/values.rs"]),
    ("compare", &["udfs/src/stats", "src/stages/compare.rs", "src/stages/values.rs"]),
    (
        "generate, score, embed",
        &["src/stages/asked.rs", "src/stages/asked", "src/stages/answers.rs"],
    ),
    ("hypothesize", &["src/stages/hypothesize.rs"]),
    ("prove", &["src/stages/prove.rs"]),
    ("verify", &["src/stages/verify.rs"]),
    ("decide", &["src/stages/decide.rs"]),
    (
        "search",
        &[
            "src/stages/prove.rs",
            "src/stages/verify.rs",
            "src/stages/repeated.rs",
            "src/stages/search.rs",
            "src/stages/search",
        ],
    ),
    (
        "teach",
        &[
            "src/retrieval",
            "src/stages/prove.rs",
            "src/stages/verify.rs",
            "src/stages/decide.rs",
            "src/stages/repeated.rs",
            "src/stages/teach.rs",
            "src/stages/teach",
        ],
    ),
    ("fit", &["udfs/fit/src", "src/stages/fit.rs"]),
    ("gather", &["src/stages/gather.rs"]),
    ("write", &["src/stages/write.rs"]),
    ("report", &["src/draw", "src/stages/report.rs", "src/stages/report"]),
    ("functions", &["udfs/src/text", "udfs/src/scalar", "udfs/src/aggregate", "udfs/src/stats"]),
    (
        "model functions",
        &[
            "udfs/src/model/functions",
            "udfs/src/model/options.rs",
            "udfs/src/model/settings.rs",
            "udfs/src/model/canonical.rs",
            "udfs/src/model/arguments.rs",
            "udfs/src/model/answers.rs",
        ],
    ),
    (
        "engine",
        &[
            "udfs/engine/src/backend",
            "udfs/engine/src/checkpoint",
            "udfs/engine/src/cpu",
            "udfs/engine/src/decode",
            "udfs/engine/src/family",
            "udfs/engine/src/model/prepare.rs",
            "udfs/engine/src/network",
            "udfs/engine/src/noise.rs",
            "udfs/engine/src/schedule",
        ],
    ),
    ("remote", &["udfs/remote/src/ask", "udfs/remote/src/wire"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a generated file with the one in the tree; `UPDATE=1` rewrites it.
fn check(path: &Path, content: &str, what_to_do: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, content).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(found == content, "{} is not current. {what_to_do}", path.display());
}

#[test]
fn reference_is_current() {
    for (name, content) in proofmill::reference::files() {
        let hint = "Run `UPDATE=1 cargo test --test it reference` and review the change.";
        check(&root().join("docs/reference").join(name), &content, hint);
    }
}

/// The code of a file without comments, tests and layout: what can change behaviour.
fn essence(path: &Path, out: &mut String) {
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        entries
            .iter()
            .filter(|entry| !entry.ends_with("tests"))
            .for_each(|entry| essence(entry, out));
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod").next().unwrap();
        let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        lines.for_each(|line| out.extend(line.chars().filter(|c| !c.is_whitespace() && *c != ',')));
    }
}

#[test]
fn behaviour_changes_only_on_purpose() {
    let mut lock = String::from(
        "# Digests of the code that decides what each kind of stage computes. When this test fails:\n\
         # if the same inputs now give another table, raise the version in src/stages/components.rs\n\
         # (of the function, in its definition; of the engine, in src/models/card.rs); then\n\
         # `UPDATE=1 cargo test --test it reference`.\n",
    );
    for (name, paths) in BEHAVIOUR {
        let mut text = String::new();
        paths.iter().for_each(|path| essence(&root().join(path), &mut text));
        assert!(!text.is_empty(), "{name}: the tree has moved");
        lock.push_str(&format!("{name} {}\n", Digest::of(text.as_bytes()).short()));
    }
    let hint = "Does it compute the same? Read the head of the file.";
    check(&root().join("tests/behaviour.lock"), &lock, hint);
}
