//! What every kind of stage and every SQL function computes, held against its fingerprints: a table that
//! changes while its fingerprint stays is a version that nobody raised, and stale tables for users.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proofmill_base::digest::Digest;
use serde_json::Value as Json;

use crate::support::Workspace;

/// The reviewed goldens: what `lines` writes.
const GOLDENS: &str = "tests/it/caching/snapshots/goldens.txt";
const HEADER: &str = "\
# Stage, kind, fingerprint and table (first 16 digits) of tests/cases/goldens/p.yaml and of a stage for each
# SQL function. `UPDATE=1 cargo test --test it goldens` rewrites it, but never a table under its old fingerprint.
";
/// Digits of a digest in `GOLDENS`.
const DIGITS: usize = 16;
/// Before the name of a stage that calls one SQL function.
const CALLS: &str = "call_";

/// A stage as it was computed.
#[derive(Clone, Debug, PartialEq)]
struct Golden {
    stage: String,
    kind: String,
    fingerprint: String,
    table: String,
}

fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Name and example of every SQL function, from its reference.
fn functions() -> Vec<(String, String)> {
    let text = fs::read_to_string(in_tree("docs/reference/functions.md")).unwrap();
    let section = |section: &str| {
        let name = section.lines().next().unwrap().to_owned();
        let example = section.split("```sql\n").nth(1).unwrap().split("\n```").next().unwrap();
        assert!(example.contains(&format!("{name}(")), "the example of {name} does not call it");
        (name, example.to_owned())
    };
    text.split("\n## ").skip(1).map(section).collect()
}

/// The pipeline with a stage for each function, its models beside it. `backwards` turns the order of the
/// stages around, which means nothing.
fn workspace(backwards: bool) -> Workspace {
    let workspace = Workspace::of_case("goldens");
    workspace.add_model("t5", "reader");
    workspace.add_model("gpt2", "writer");
    workspace.add_model("bert-sentence", "encoder");
    workspace.add_model("bert-classifier", "judge");
    let text = workspace.read("p.yaml");
    let (head, stages) = text.split_once("\nstages:\n").unwrap();
    let mut stages: Vec<String> = stages.split("\n\n").map(str::to_owned).collect();
    for (name, example) in functions() {
        let mut example = example.replace('\n', "\n      ");
        if name == "classify" {
            // The model of all other examples has no head for classes.
            example = example.replace("'echo'", "'judge'");
        }
        stages.push(format!("  {CALLS}{name}:\n    sql: |\n      {example}"));
    }
    if backwards {
        stages.reverse();
    }
    workspace.write("p.yaml", format!("{head}\nstages:\n{}\n", stages.join("\n\n")));
    workspace
}

/// Runs the pipeline: its stages, ordered by name.
fn computed(workspace: &Workspace, jobs: &str) -> Vec<Golden> {
    workspace.proofmill(&["run", "p.yaml", "--jobs", jobs]).expect(0);
    let plan = workspace.json(&["plan", "p.yaml"]);
    let golden = |stage: &Json| {
        let text = |key: &str| stage[key].as_str().unwrap().to_owned();
        let fingerprint = text("fingerprint");
        let table = table(workspace, &fingerprint);
        Golden {
            stage: text("stage"),
            kind: text("kind"),
            fingerprint: fingerprint[..DIGITS].to_owned(),
            table: table.to_string()[..DIGITS].to_owned(),
        }
    };
    let mut goldens: Vec<_> = plan.as_array().unwrap().iter().map(golden).collect();
    goldens.sort_by(|a, b| a.stage.cmp(&b.stage));
    goldens
}

/// The digest of what a stored table says: columns and rows, however its Parquet is encoded and cut, and
/// how many rows failed.
fn table(workspace: &Workspace, fingerprint: &str) -> Digest {
    let store = workspace.path("store");
    let record = store.join(format!("artifacts/{}/{fingerprint}.json", &fingerprint[..2]));
    let record: Json = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
    let options = FormatOptions::default().with_null("\0");
    let (mut columns, mut rows) = (String::new(), String::new());
    for part in record["parts"].as_array().unwrap() {
        let file = File::open(store.join(part["key"].as_str().unwrap())).unwrap();
        let part = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        columns = part.schema().fields().iter().fold(String::new(), |columns, field| {
            let null = if field.is_nullable() { "?" } else { "" };
            format!("{columns}{} {}{null}\n", field.name(), field.data_type())
        });
        for batch in part.build().unwrap() {
            let batch = batch.unwrap();
            let cells = batch.columns().iter();
            let cells: Vec<_> =
                cells.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
            for row in 0..batch.num_rows() {
                cells.iter().for_each(|cell| write!(rows, "{}\x1f", cell.value(row)).unwrap());
                rows.push('\n');
            }
        }
    }
    let errors = record["errors"].as_array().unwrap().iter();
    let errors: u64 = errors.map(|part| part["rows"].as_u64().unwrap()).sum();
    Digest::of(format!("{columns}\n{rows}\n{errors} failed").as_bytes())
}

fn lines(goldens: &[Golden]) -> String {
    goldens.iter().fold(HEADER.to_owned(), |text, golden| {
        let Golden { stage, kind, fingerprint, table } = golden;
        format!("{text}{stage} {kind} {fingerprint} {table}\n")
    })
}

fn parsed(text: &str) -> Vec<Golden> {
    let golden = |line: &str| {
        let [stage, kind, fingerprint, table] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{GOLDENS} has a line of its own: {line}")
        };
        let [stage, kind, fingerprint, table] =
            [stage, kind, fingerprint, table].map(str::to_owned);
        Golden { stage, kind, fingerprint, table }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(golden).collect()
}

/// What is wrong with `new` where `old` was reviewed: a table that changed while its fingerprint did not.
fn stale(old: &[Golden], new: &[Golden]) -> Vec<String> {
    let mut found = Vec::new();
    for Golden { stage, kind, fingerprint, table } in new {
        let before = old.iter().find(|before| before.fingerprint == *fingerprint);
        if before.is_none_or(|before| before.table == *table) {
            continue;
        }
        let raise = match stage.strip_prefix(CALLS) {
            Some(function) => format!("of the SQL function `{function}`, in its definition"),
            None => format!("of the kind `{kind}`"),
        };
        found.push(format!(
            "{stage}: another table under the fingerprint {fingerprint}. Raise the version {raise}"
        ));
    }
    found
}

#[test]
fn a_table_changes_only_with_its_fingerprint() {
    let (first, second) = (workspace(false), workspace(true));
    let new = computed(&first, "1");
    assert_eq!(lines(&computed(&second, "4")), lines(&new), "folder, order or jobs count");

    let old = fs::read_to_string(in_tree(GOLDENS)).unwrap_or_default();
    let stale = stale(&parsed(&old), &new);
    assert!(
        stale.is_empty(),
        "users would get stale tables from their stores:\n{}\nIf these follow from what models answer, raise \
         ENGINE_VERSION instead; if from another stage of this list, its version is enough.",
        stale.join("\n")
    );
    if std::env::var_os("UPDATE").is_some() {
        fs::write(in_tree(GOLDENS), lines(&new)).unwrap();
    }
    let reviewed = fs::read_to_string(in_tree(GOLDENS)).unwrap_or_default();
    let hint = "run `UPDATE=1 cargo test --test it goldens` and review the change";
    assert!(
        reviewed == lines(&new),
        "{GOLDENS} is not current; {hint}. Now it is\n{}",
        lines(&new)
    );
}

#[test]
fn no_update_hides_a_version_that_was_not_raised() {
    let golden = |stage: &str, fingerprint: &str, table: &str| {
        let kind = if stage.starts_with(CALLS) { "sql" } else { "measure" };
        let [stage, kind, fingerprint, table] =
            [stage, kind, fingerprint, table].map(str::to_owned);
        Golden { stage, kind, fingerprint, table }
    };
    let old = [golden("metrics", "f1", "t1"), golden("call_bleu", "f2", "t2")];
    assert_eq!(parsed(&lines(&old)), old);
    let none: [String; 0] = [];
    assert_eq!(stale(&old, &old), none);
    assert_eq!(stale(&old, &[golden("metrics", "f3", "t3")]), none, "a raised version");
    assert_eq!(stale(&old, &[golden("metrics", "f3", "t1")]), none, "raised for nothing");
    // Whatever the stage is called now.
    let kind = stale(&old, &[golden("numbers", "f1", "t3")]);
    assert!(kind[0].contains("Raise the version of the kind `measure`"), "{kind:?}");
    let function = stale(&old, &[golden("call_bleu", "f2", "t3")]);
    assert!(function[0].contains("of the SQL function `bleu`"), "{function:?}");
}

#[test]
fn every_kind_is_computed() {
    let schema = fs::read_to_string(in_tree("docs/reference/pipeline.schema.json")).unwrap();
    let schema: Json = serde_json::from_str(&schema).unwrap();
    let kinds = schema["$defs"]["Stage"]["oneOf"].as_array().unwrap().iter();
    let mut kinds: BTreeSet<&str> =
        kinds.map(|kind| kind["required"][0].as_str().unwrap()).collect();
    // What the stages of a matrix are gathered by, and what turns begin with; no file declares them.
    kinds.extend(["matrix_union", "carry"]);
    let plan = workspace(false).json(&["plan", "p.yaml"]);
    let planned = plan.as_array().unwrap().iter().map(|stage| stage["kind"].as_str().unwrap());
    assert_eq!(planned.collect::<BTreeSet<_>>(), kinds, "add a stage of the kind to the goldens");
}
