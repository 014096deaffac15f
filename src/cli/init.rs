//! `proofmill init`

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind as Io, Write};
use std::path::Path;

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::views::shell::quoted;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_pipeline::project::PROJECT_FILE;
use proofmill_pipeline::schema::FormatSchema;

/// Where the schema lies in a project.
const SCHEMA: &str = ".proofmill/pipeline.schema.json";

const FIRST: &str = "\
# yaml-language-server: $schema=.proofmill/pipeline.schema.json
pipeline: first
description: Accuracy of a classifier. Change answers.csv, and only stages that depend on it are recomputed.

stages:
  answers: { read: { path: answers.csv } }

  scored:
    sql: SELECT id, question, answer, gold, answer = gold AS correct FROM answers
    checks: [{ unique: id }, { not_null: gold }]

  accuracy: { measure: { from: scored, correct: correct } }

tests:
  - name: a missing answer counts as wrong
    given: { answers: [{ row_id: a, id: a, question: Is it?, answer: null, gold: 'yes' }] }
    expect: { accuracy: [{ name: accuracy, value: 0.0 }] }
";

const ANSWERS: &str = "\
id,question,answer,gold
a,Is iron a metal?,yes,yes
b,Is a whale a fish?,yes,no
c,Is ice water?,yes,yes
";

const PROJECT: &str = "\
# Settings of this machine, not of a pipeline. Choose another profile with --profile NAME.
profile: here
profiles:
  here:
    store: proofmill-store        # or s3://bucket/prefix, gs://…, az://…
    params: {}                    # for every pipeline that declares them, such as encoder: /models/minilm
";

const IGNORED: &str = "proofmill-store/\n";

/// Begins a project. Files that are there stay as they are, but for the schema, which is the program's.
pub fn init(args: &args::Init, environment: &Environment) -> Result<()> {
    let folder = &args.folder;
    let schema = serde_json::to_string_pretty(&FormatSchema::generate().document())
        .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    for (name, content) in [
        ("first.yaml", FIRST),
        ("answers.csv", ANSWERS),
        (PROJECT_FILE, PROJECT),
        (".gitignore", IGNORED),
    ] {
        let path = folder.join(name);
        match create(&path, content) {
            Ok(()) => environment.output.remark(format!("created {}", path.display())),
            Err(error) if error.kind() == Io::AlreadyExists => {
                environment
                    .output
                    .remark(format!("{} exists and is left unchanged", path.display()));
            }
            Err(error) => return Err(failed(&path, error)),
        }
    }
    let path = folder.join(SCHEMA);
    let written =
        fs::create_dir_all(folder.join(".proofmill")).and_then(|()| fs::write(&path, schema));
    written.map_err(|error| failed(&path, error))?;
    environment.output.remark(format!("created {}", path.display()));
    let enter = match folder == Path::new(".") {
        true => String::new(),
        false => format!("cd {} && ", quoted(&folder.to_string_lossy())),
    };
    environment.output.remark(format!("\nnow run it\n  {enter}proofmill run first.yaml"));
    Ok(())
}

/// Makes a file that is not there yet, and its folder.
fn create(path: &Path, content: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(content.as_bytes())
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    let message = format!("`{}` cannot be written", path.display());
    Error::new(ErrorKind::Usage, message).with_source(error)
}
