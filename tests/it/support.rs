//! What the tests of the program share: a folder to work in, the program run in it, its answers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use proofmill_base::digest::Digest;
use serde_json::Value as Json;
use tempfile::TempDir;

/// A folder with pipelines and data, and the store `store` in it.
pub struct Workspace(TempDir);

/// What the program said.
#[derive(Debug)]
pub struct Done {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Workspace {
    /// An empty folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with one pipeline, `p.yaml`.
    pub fn with(pipeline: &str) -> Self {
        let workspace = Self::new();
        workspace.write("p.yaml", pipeline);
        workspace
    }

    /// A folder with the files of a case of `tests/cases`.
    pub fn of_case(case: &str) -> Self {
        let workspace = Self::new();
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(case),
            workspace.0.path(),
        );
        workspace
    }

    /// The same files and store again, elsewhere.
    pub fn copy(&self) -> Self {
        let workspace = Self::new();
        copy(self.0.path(), workspace.0.path());
        workspace
    }

    /// A tiny model with random weights in the folder `name`, of the tests of the engine.
    pub fn add_model(&self, family: &str, name: &str) {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("udfs/engine/tests/parity/data");
        copy(&data.join(family), &self.path(name));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Replaces the one occurrence of `old` in a file.
    #[track_caller]
    pub fn edit(&self, name: &str, old: &str, new: &str) {
        let text = self.read(name);
        assert_eq!(text.matches(old).count(), 1, "`{old}` must occur once in {name}:\n{text}");
        self.write(name, text.replacen(old, new, 1));
    }

    /// The file of the artifact record of a stage of `p.yaml`.
    #[track_caller]
    pub fn record(&self, stage: &str) -> PathBuf {
        let why = self.json(&["why", "p.yaml", stage]);
        let fingerprint = why["fingerprint"].as_str().unwrap();
        self.path("store").join(format!("artifacts/{}/{fingerprint}.json", &fingerprint[..2]))
    }

    /// All files of the store whose key contains `part`, by key.
    pub fn keys(&self, part: &str) -> Vec<String> {
        let mut keys = Vec::new();
        if self.path("store").exists() {
            walk(&self.path("store"), &mut keys);
        }
        let relative =
            |path: &PathBuf| path.strip_prefix(self.path("store")).unwrap().display().to_string();
        let mut keys: Vec<_> = keys.iter().map(relative).filter(|key| key.contains(part)).collect();
        keys.sort();
        keys
    }

    /// The program with arguments, in this folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_proofmill"));
        command
            .current_dir(self.0.path())
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("PROOFMILL_STORE", "store")
            .env_remove("NO_COLOR")
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn proofmill(&self, args: &[&str]) -> Done {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Done {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Starts the program; its standard error goes to the file `name`.
    pub fn start(&self, args: &[&str], name: &str) -> Child {
        let stderr = fs::File::create(self.path(name)).unwrap();
        self.command(args).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap()
    }

    /// Runs the program, which must succeed, for its JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Json {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.proofmill(&args).expect(0).json()
    }

    /// Runs `p.yaml`, which must succeed: the stages that were computed.
    #[track_caller]
    pub fn run(&self) -> BTreeSet<String> {
        executed(&self.json(&["run", "p.yaml"]))
    }

    /// The rows that a query of the newest run gives.
    #[track_caller]
    pub fn sql(&self, query: &str) -> Vec<Json> {
        self.json(&["sql", query]).as_array().unwrap().clone()
    }

    /// The reason that `plan` gives for a stage of `p.yaml`.
    #[track_caller]
    pub fn reason(&self, stage: &str) -> String {
        let plan = self.json(&["plan", "p.yaml"]);
        let found = plan.as_array().unwrap().iter().find(|line| line["stage"] == stage);
        found.unwrap()["reason"].as_str().unwrap().to_owned()
    }
}

impl Done {
    /// Checks the exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Checks that standard error says something.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "`{text}` is not in:\n{}", self.stderr);
        self
    }

    /// Standard output, which must be one JSON document.
    #[track_caller]
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Changes a record of the store and seals it anew, as anybody can who may write there.
#[track_caller]
pub fn forge(path: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(path).unwrap();
    let body = text[..text.len() - 78].to_owned();
    assert_eq!(body.matches(old).count(), 1, "`{old}` must occur once in {body}");
    let body = body.replacen(old, new, 1);
    let seal = Digest::of(body.as_bytes());
    fs::write(path, format!("{body},\"sha256\":\"{seal}\"}}\n")).unwrap();
}

/// The stages that a run computed.
pub fn executed(run: &Json) -> BTreeSet<String> {
    with_status(run, "computed")
}

/// The stages of a run with this status.
pub fn with_status(run: &Json, status: &str) -> BTreeSet<String> {
    let stages = run["stages"].as_array().unwrap().iter();
    let these = stages.filter(|stage| stage["status"] == status);
    these.map(|stage| stage["stage"].as_str().unwrap().to_owned()).collect()
}

/// A set of names.
pub fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, out) } else { out.push(path) }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}
