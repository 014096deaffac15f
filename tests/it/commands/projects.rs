//! Projects: `init`, the project file with its profiles, and what editors and shells are given.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use proofmill_pipeline::source::Sources;
use proofmill_pipeline::yaml;
use serde_json::Value as Json;

use crate::support::Workspace;

#[test]
fn a_new_project_runs_and_is_never_overwritten() {
    let workspace = Workspace::new();
    let made = workspace.proofmill(&["init", "my evals"]).expect(0);
    made.says("created my evals/first.yaml").says("cd 'my evals' && proofmill run first.yaml");
    let run = |args: &[&str]| {
        let mut command = workspace.command(args);
        command.env_remove("PROOFMILL_STORE").current_dir(workspace.path("my evals"));
        command.output().unwrap()
    };
    for args in [&["check", "first.yaml"][..], &["test", "first.yaml"], &["run", "first.yaml"]] {
        let done = run(args);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let shown = run(&["sql", "--json", "SELECT value FROM accuracy"]);
    let value: Json = serde_json::from_slice(&shown.stdout).unwrap();
    let value = value[0]["value"].as_f64().unwrap();
    assert!((value - 2.0 / 3.0).abs() < 1e-12, "{value}");
    // The schema that the file names is the one that the program prints.
    let text = workspace.read("my evals/first.yaml");
    let schema = text.lines().next().unwrap().split_once("$schema=").unwrap().1;
    let attached: Json =
        serde_json::from_str(&workspace.read(&format!("my evals/{schema}"))).unwrap();
    assert_eq!(attached, workspace.json(&["schema"]));

    workspace.write("my evals/first.yaml", "mine");
    fs::remove_file(workspace.path("my evals/answers.csv")).unwrap();
    workspace
        .proofmill(&["init", "my evals"])
        .expect(0)
        .says("first.yaml exists and is left unchanged");
    assert_eq!(workspace.read("my evals/first.yaml"), "mine");
    assert!(workspace.path("my evals/answers.csv").exists());
    workspace.write("file", "");
    workspace.proofmill(&["init", "file"]).expect(2).says("cannot be written");
}

const PIPELINE: &str = "\
pipeline: p
params: { k: 1, kinds: [a] }
stages:
  t: { sql: \"SELECT ${params.k} AS k\" }
";

const PROJECT: &str = "\
profile: here
profiles:
  here: { store: here, params: { k: 2, kinds: [b, c], other: x } }
  there: { store: there, params: { k: 3 } }
  nowhere: {}
";

#[test]
fn a_profile_gives_a_store_and_parameters() {
    let workspace = Workspace::with(PIPELINE);
    workspace.write("proofmill.yaml", PROJECT);
    let run = |args: &[&str], store: Option<&str>| -> Json {
        let args: Vec<&str> = ["run", "p.yaml", "--json"].iter().chain(args).copied().collect();
        let mut command = workspace.command(&args);
        command.env_remove("PROOFMILL_STORE");
        if let Some(store) = store {
            command.env("PROOFMILL_STORE", store);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let k = |run: &Json, store: &str| {
        let run = run["run"].as_str().unwrap();
        let manifest = workspace.read(&format!("{store}/runs/{run}/manifest.json"));
        let manifest: Json = serde_json::from_str(&manifest).unwrap();
        manifest["params"].clone()
    };
    let expected = |k: u64, kinds: &[&str]| serde_json::json!({"k": k, "kinds": kinds});
    assert_eq!(k(&run(&[], None), "here"), expected(2, &["b", "c"]), "`other` is not declared");
    assert_eq!(k(&run(&["--profile", "there"], None), "there"), expected(3, &["a"]));
    assert_eq!(k(&run(&["--profile", "nowhere"], None), "proofmill-store"), expected(1, &["a"]));
    // The command line comes first, then the environment.
    let both = ["--profile", "there", "--param", "k=9"];
    assert_eq!(k(&run(&both, None), "there"), expected(9, &["a"]));
    assert_eq!(k(&run(&[], Some("elsewhere")), "elsewhere"), expected(2, &["b", "c"]));
    assert_eq!(k(&run(&["--store", "mine"], Some("elsewhere")), "mine"), expected(2, &["b", "c"]));

    let refused = |args: &[&str]| {
        let args: Vec<&str> = ["runs"].iter().chain(args).copied().collect();
        workspace.proofmill(&args).expect(2)
    };
    refused(&["--profile", "ther"]).says("no profile `ther`").says("did you mean `there`?");
    workspace.write("proofmill.yaml", PROJECT.replace("store: there", "stor: there"));
    refused(&[]).says("unknown field `stor`").says("proofmill.yaml");
    workspace.write("proofmill.yaml", "profiles: [");
    refused(&[]).says("`proofmill.yaml` cannot be used");
    fs::remove_file(workspace.path("proofmill.yaml")).unwrap();
    refused(&["--profile", "here"]).says("there is no project file `proofmill.yaml` here");
}

#[test]
fn shells_and_readers_of_manuals_are_served() {
    let workspace = Workspace::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = workspace.proofmill(&["completions", shell]).expect(0).stdout;
        assert!(script.contains("trends") && script.contains("proofmill"), "{shell}");
    }
    let page = workspace.proofmill(&["man"]).expect(0).stdout;
    assert!(page.contains(".TH proofmill") && page.contains("trends"), "{page}");
}

/// What `check` accepts, an editor with the schema does not call wrong: asked of Python's jsonschema.
#[test]
fn the_schema_fits_all_pipelines_that_ship() {
    let known = Command::new("python3").args(["-c", "import jsonschema"]).output();
    if !known.is_ok_and(|known| known.status.success()) {
        // Past the test runner's capture: what is skipped must be seen.
        let why = "no python3 with jsonschema checks the schema for editors";
        let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    crate::tree::tidy::files(&root.join("pipelines"), "yaml", &mut files);
    assert!(files.len() > 20);
    let tree = |path: &PathBuf| {
        let mut sources = Sources::default();
        let source = sources.add("p", fs::read_to_string(path).unwrap());
        yaml::parse(&sources, source, &mut Vec::new()).unwrap().to_json()
    };
    let trees: serde_json::Map<String, Json> =
        files.iter().map(|path| (path.display().to_string(), tree(path))).collect();
    let workspace = Workspace::new();
    workspace.write("schema.json", workspace.json(&["schema"]).to_string());
    workspace.write("files.json", Json::Object(trees).to_string());
    let script = "
import json
from jsonschema import Draft202012Validator
schema = Draft202012Validator(json.load(open('schema.json')))
for name, tree in json.load(open('files.json')).items():
    for error in schema.iter_errors(tree):
        print(name, list(error.absolute_path), error.message[:200])
tree['stages'] = {'a': {'sq': 1}}
assert list(schema.iter_errors(tree)), 'nothing is ever wrong'
";
    let found =
        Command::new("python3").args(["-c", script]).current_dir(workspace.path("")).output();
    let found = found.unwrap();
    let said = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    assert!(said.is_empty(), "{said}");
}
