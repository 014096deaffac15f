//! Files that `write` and `report` make outside the store: their modes, what they replace, and what they
//! never write to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::{Workspace, set};

const PIPELINE: &str = "\
pipeline: p
params: { x: 1 }
stages:
  rows: { sql: \"SELECT ${params.x} AS x, 1 AS y\" }
  table: { write: { from: rows, path: out/rows.csv } }
  page: { report: { path: out/page, blocks: [{ plot: { from: rows, x: x, y: y } }] } }
";
const FILES: [&str; 3] = ["out/rows.csv", "out/page/report.md", "out/page/rows.svg"];

/// The permission bits of a file.
fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Runs the pipeline under a mask of the file mode.
fn run_under(mask: &str, workspace: &Workspace, x: &str) {
    let program = env!("CARGO_BIN_EXE_proofmill");
    let run = format!("umask {mask} && exec {program} --store store run p.yaml --param x={x}");
    let mut shell = Command::new("sh");
    shell.current_dir(workspace.path("")).env("XDG_CACHE_HOME", workspace.path("cache"));
    let output = shell.args(["-c", &run]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn new_files_have_the_mode_of_any_new_file() {
    for (mask, expected) in [("022", 0o644), ("002", 0o664), ("077", 0o600), ("000", 0o666)] {
        let workspace = Workspace::with(PIPELINE);
        run_under(mask, &workspace, "1");
        for file in FILES {
            assert_eq!(mode(&workspace.path(file)), expected, "{file} under {mask}");
        }
    }
}

#[test]
fn replaced_files_keep_their_mode() {
    let workspace = Workspace::with(PIPELINE);
    run_under("022", &workspace, "1");
    for (bits, x) in [(0o600, "2"), (0o666, "3"), (0o640, "4")] {
        let before = FILES.map(|file| workspace.read(file));
        for file in FILES {
            fs::set_permissions(workspace.path(file), Permissions::from_mode(bits)).unwrap();
        }
        run_under("027", &workspace, x);
        for file in FILES {
            assert_eq!(mode(&workspace.path(file)), bits, "{file}");
        }
        assert_ne!(FILES.map(|file| workspace.read(file)), before);
    }
    let left = |folder: &str| fs::read_dir(workspace.path(folder)).unwrap().count();
    assert_eq!((left("out"), left("out/page")), (2, 2), "nothing is left over");
}

#[test]
fn nothing_is_written_through_a_link_or_to_what_is_no_file() {
    for file in FILES {
        for what in ["link", "dangling link", "folder", "pipe"] {
            let workspace = Workspace::with(PIPELINE);
            let path = workspace.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            workspace.write("elsewhere", "kept");
            match what {
                "link" => symlink(workspace.path("elsewhere"), &path).unwrap(),
                "dangling link" => symlink(workspace.path("nowhere"), &path).unwrap(),
                "folder" => fs::create_dir(&path).unwrap(),
                _ => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
            }
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let name = Path::new(file).file_name().unwrap().to_str().unwrap();
            let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
            done.says(name).says("cannot be written: it is a");
            assert_eq!(fs::symlink_metadata(&path).unwrap().file_type(), kind, "{file}: {what}");
            assert_eq!(workspace.read("elsewhere"), "kept");
            assert!(!workspace.path("nowhere").exists());
            let left = fs::read_dir(path.parent().unwrap()).unwrap();
            let drafts =
                left.filter(|it| it.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b'.');
            assert_eq!(drafts.count(), 0, "{file}: {what}");
        }
    }
}

#[test]
fn a_file_that_became_a_link_or_a_pipe_is_not_taken_for_what_was_written() {
    for file in FILES {
        for pipe in [false, true] {
            let workspace = Workspace::with(PIPELINE);
            workspace.run();
            assert_eq!(workspace.run(), set(&[]));
            let path = workspace.path(file);
            fs::rename(&path, workspace.path("elsewhere")).unwrap();
            match pipe {
                // Whoever opens it to read waits for ever.
                true => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
                false => symlink(workspace.path("elsewhere"), &path).unwrap(),
            }
            workspace.proofmill(&["run", "p.yaml"]).expect(1).says("cannot be written");
            fs::remove_file(&path).unwrap();
            assert_eq!(workspace.run().len(), 1);
        }
    }
}

#[test]
fn a_linked_folder_is_a_folder() {
    let workspace = Workspace::with(PIPELINE);
    fs::create_dir(workspace.path("share")).unwrap();
    symlink(workspace.path("share"), workspace.path("out")).unwrap();
    workspace.run();
    assert!(workspace.path("share/rows.csv").exists() && workspace.path("share/page").is_dir());
    assert_eq!(workspace.run(), set(&[]));
}

/// Every format that is written is read again, with the same rows.
#[test]
fn what_is_written_reads_back() {
    for ending in ["jsonl", "json", "csv", "tsv", "parquet", "txt"] {
        let columns = if ending == "txt" { "text" } else { "n, ok, text" };
        let column = if ending == "txt" { "line AS text" } else { columns };
        let workspace = Workspace::with(&format!(
            "pipeline: p
stages:
  rows: {{ sql: \"SELECT {columns} FROM (VALUES (1, true, 'plain'), (-2, false, 'a, \\\"quoted\\\" one'), (3, true, 'ä €')) AS t(n, ok, text)\" }}
  out: {{ write: {{ from: rows, path: rows.{ending} }} }}
"
        ));
        workspace.proofmill(&["run", "p.yaml"]).expect(0);
        workspace.write(
            "q.yaml",
            format!("pipeline: q\nstages:\n  back: {{ read: {{ path: rows.{ending} }} }}\n  rows: {{ sql: \"SELECT {column} FROM back\" }}\n"),
        );
        workspace.proofmill(&["run", "q.yaml"]).expect(0);
        let rows = |run: &str| {
            workspace.json(&["show", "rows", "--run", run, "--format", "json"])["rows"].clone()
        };
        assert_eq!(rows("q"), rows("p"), "{ending}");
        let name = format!("again.{ending}");
        workspace.proofmill(&["show", "rows", "--run", "p", "--output", &name]).expect(0);
        assert_eq!(
            fs::read(workspace.path(&name)).unwrap(),
            fs::read(workspace.path(&format!("rows.{ending}"))).unwrap()
        );
    }
    let workspace = Workspace::with(
        "pipeline: p\nstages:\n  rows: { sql: \"SELECT 'a' || chr(9) || 'b' AS text\" }\n  out: { write: { from: rows, path: rows.tsv } }\n",
    );
    workspace
        .proofmill(&["run", "p.yaml"])
        .expect(1)
        .says("row 1: the column `text` has a tab, which TSV cannot hold");
    assert!(!workspace.path("rows.tsv").exists());
    workspace
        .proofmill(&["show", "rows", "--format", "tsv"])
        .expect(2)
        .says("which TSV cannot hold");
    workspace.proofmill(&["show", "rows", "--output", "rows.csv.gz"]).expect(2).says("`.csv`");
}
