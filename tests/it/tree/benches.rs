//! Benchmarks in Python, each in its smallest size: that they run, and find what they compare alike. Times are for
//! people, on a machine that does nothing else.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::support::Workspace;
use crate::tree::tidy::root;

/// What a script says, run with `args` by a Python that has `packages`; `None` where there is none.
fn said(script: &str, packages: &str, args: &[&str]) -> Option<String> {
    let python = std::env::var("PROOFMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = Command::new(&python).args(["-c", &format!("import {packages}")]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        return skipped(script, &format!("`{python}` does not have {packages}"));
    }
    let path = root().join("tests/bench").join(script);
    let done = Command::new(&python).arg("-B").arg(path).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{script}: {}{}", text(&done.stdout), text(&done.stderr));
    Some(text(&done.stdout))
}

fn skipped<T>(script: &str, why: &str) -> Option<T> {
    // Past the test runner's capture: what is skipped must be seen.
    let _ = writeln!(std::io::stderr(), "SKIPPED: tests/bench/{script}: {why}");
    None
}

/// A script that measures the program, on a machine that may be busy; nothing stays.
fn ours(script: &str, packages: &str, args: &[&str]) -> Option<String> {
    let workspace = Workspace::new();
    let folder = workspace.path("").display().to_string();
    let results = workspace.path("results").display().to_string();
    let common = ["--binary", env!("CARGO_BIN_EXE_proofmill"), "--work-dir", &folder, "--force"];
    let once = ["--results", &results, "--rounds", "1", "--warm-ups", "0"];
    let all = [common.as_slice(), &once, args];
    said(script, packages, &all.concat())
}

/// A program that `cargo bench --no-run` makes, in the folder that a variable names.
fn bench(script: &str, name: &str) -> Option<String> {
    let folder = std::env::var_os("PROOFMILL_BENCHES").map(PathBuf::from);
    let path = folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
    path.map(|path| path.display().to_string())
        .or_else(|| skipped(script, &format!("PROOFMILL_BENCHES names no folder with `{name}`")))
}

#[test]
fn runs_with_workers() {
    let sizes = ["--requests", "300", "--delay-ms", "1", "--workers", "2"];
    let Some(said) = ours("workers.py", "json", &sizes) else { return };
    for line in ["2 workers", "replay alone", "speed of a replay"] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn overhead_of_stages() {
    let Some(said) = ours("overhead.py", "json", &["--stages", "30", "--large-rounds", "1"]) else {
        return;
    };
    for line in ["D4 warm", "D3 matrix cold", "W3 root, stages computed"] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn programs_as_stages() {
    let Some(said) = ours("programs.py", "json", &["--rows", "200"]) else { return };
    assert!(said.contains("times the script by itself: command: "), "{said}");
}

#[test]
fn sql_beside_its_peers() {
    let python = std::env::var("PROOFMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let args = ["--rows", "2000", "--peers", &python];
    let Some(said) = ours("sql_10m.py", "duckdb, polars", &args) else { return };
    assert!(said.contains("like for like: the two steps"), "{said}");
}

#[test]
fn verification_beside_sha256sum() {
    let args = ["--objects", "60", "--stages", "20", "--mib", "2", "--tables", "2"];
    let Some(said) = ours("evidence.py", "json", &args) else { return };
    for line in ["large, level 3", "speed (sha256sum = 1)", "found one flipped byte"] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn a_store_that_grows() {
    let small = ["--week", "2", "--nights", "5", "--others", "7", "--stages", "4"];
    for (store, packages) in [("folder", "json"), ("s3", "moto.server")] {
        let args = [small.as_slice(), &["--store", store]].concat();
        let Some(said) = ours("growth.py", packages, &args) else { continue };
        for line in [store, "trends --limit 7", "over the aim of 1.3 times"] {
            assert!(said.contains(line), "{said}");
        }
    }
}

#[test]
fn another_build_in_turns() {
    let python = std::env::var("PROOFMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let args = [env!("CARGO_BIN_EXE_proofmill"), "--rows", "2000", "--stages", "30"];
    let folder = tempfile::tempdir().unwrap();
    let pipeline = folder.path().join("p.yaml");
    std::fs::write(
        &pipeline,
        "pipeline: p\nparams: { n: 1 }\nstages: { a: { sql: 'SELECT ${params.n} AS n' } }\n",
    )
    .unwrap();
    let pipeline = pipeline.display().to_string();
    let more = ["--peers", &python, "--pipeline", &pipeline, "--param", "n=2"];
    let args = [args.as_slice(), &more].concat();
    let Some(said) = ours("against.py", "duckdb", &args) else { return };
    for line in ["sql, cpu", "cold, wall", "check, wall", "pipeline, wall"] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn many_workers_are_simulated() {
    let args = ["--workers", "1,20", "--requests", "100000"];
    let Some(said) = said("scale.py", "json", &args) else { return };
    let line = |workers: &str| said.lines().find(|line| line.trim_start().starts_with(workers));
    let speed = |workers| -> f64 {
        let cells: Vec<&str> = line(workers).unwrap_or(&said).split_whitespace().collect();
        cells[2].replace(',', "").parse().unwrap()
    };
    // One worker is limited by itself, and twenty are twenty.
    assert!((speed("1 ") - 32.0).abs() < 0.5, "{said}");
    assert!((600.0..=640.0).contains(&speed("20 ")), "{said}");
}

#[test]
fn a_retrieval_pipeline() {
    let binary = ["--binary", env!("CARGO_BIN_EXE_proofmill")];
    let args = [binary.as_slice(), &["--facts", "300", "--queries", "20"]].concat();
    let Some(said) = said("retrieval_pipeline.py", "json", &args) else { return };
    assert!(said.contains("recalled") && said.contains("MiB peak"), "{said}");
}

#[test]
fn exact_search_beside_faiss() {
    let script = "dense_peer.py";
    let Some(program) = bench(script, "dense") else { return };
    let sizes = ["--entries", "500", "--queries", "20", "--dimensions", "32", "--repeat", "1"];
    let args = [[program.as_str()].as_slice(), &sizes].concat();
    let Some(said) = said(script, "faiss, numpy", &args) else { return };
    assert!(said.contains("hits are the same"), "{said}");
}

#[test]
fn vectors_beside_sentence_transformers() {
    let script = "engine_peer.py";
    let Some(program) = bench(script, "throughput") else { return };
    let Some(model) = std::env::var("PROOFMILL_MINILM").ok() else {
        skipped::<()>(script, "PROOFMILL_MINILM names no folder of MiniLM");
        return;
    };
    let workspace = Workspace::new();
    workspace.write("texts.txt", "iron is a metal\nice is water\n");
    let texts = workspace.path("texts.txt").display().to_string();
    let args = ["embed", &program, "--model", &model, "--texts", &texts, "--count", "2"];
    let Some(said) = said(script, "torch, sentence_transformers", &args) else { return };
    assert!(said.contains("ours int8"), "{said}");
}

#[test]
fn a_device_beside_transformers() {
    // What `kit.sh` puts together.
    let Some(script) = bench("gpu/measure.py", "measure.py") else { return };
    let workspace = Workspace::new();
    let out = workspace.path("out").display().to_string();
    let args = ["--quick", "--device", "cpu", "--dtype", "f32", "--out", &out, "--minutes", "2"];
    let Some(_) = said(&script, "torch, transformers", &args) else { return };
    assert!(workspace.path("out").read_dir().unwrap().next().is_some(), "nothing was written");
}
