//! Indexes that are opened on this machine: no record names a file elsewhere, and whatever happened to
//! the cache, answers are the same.

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::{Workspace, forge};

const RETRIEVING: &str = "\
pipeline: p
params: { least: 0 }
stages:
  rows: { sql: \"SELECT value AS v, 'row ' || value AS text FROM generate_series(1, 50)\" }
  kept: { sql: \"SELECT * FROM rows WHERE v > ${params.least}\" }
  memory: { index: { from: rows, fact: text } }
  found: { retrieve: { from: kept, query: text, id: v, memory: memory, top_k: 3 } }
";

/// What `found` holds after a run with a parameter that makes it retrieve again.
#[track_caller]
fn found(workspace: &Workspace, least: usize) -> Vec<Json> {
    let param = format!("least={least}");
    workspace.proofmill(&["run", "p.yaml", "--param", &param]).expect(0);
    workspace.sql("SELECT * FROM found ORDER BY query_id, rank")
}

#[test]
fn a_record_cannot_name_a_file_outside_the_folder_of_its_index() {
    let workspace = Workspace::with(RETRIEVING);
    workspace.run();
    let path = workspace.record("memory");
    let text = fs::read_to_string(&path).unwrap();
    let first =
        text.split_once("\"files\":[").unwrap().1.split_once('}').unwrap().0.to_owned() + "}";
    let (before, after) = first.split_once("\"name\":\"").unwrap();
    let (_, after) = after.split_once('"').unwrap();
    let outside = workspace.path("planted");
    for name in [outside.to_str().unwrap(), "../../../planted", "../planted", "a/../b", "..", ""] {
        let copy = workspace.copy();
        fs::remove_dir_all(copy.path("cache")).unwrap();
        let (path, name) = (copy.record("memory"), json!(name));
        let forged = format!("{first},{before}\"name\":{name}{after}");
        forge(&path, &first, &forged);
        // The record is not believed: its stage is computed again, and nothing is written elsewhere.
        assert!(copy.reason("memory").contains("missing"), "{}", copy.reason("memory"));
        copy.proofmill(&["run", "p.yaml", "--param", "least=1"]).expect(0);
        for planted in [&outside, &copy.path("planted"), &copy.path("cache/planted")] {
            assert!(!planted.exists(), "{name}");
        }
        assert!(!copy.path("cache/proofmill/index/planted").exists(), "{name}");
    }
}

#[test]
fn a_damaged_cache_of_indexes_changes_nothing() {
    let workspace = Workspace::with(RETRIEVING);
    workspace.run();
    let right = found(&workspace.copy(), 1);
    let index = fs::read_dir(workspace.path("cache/proofmill/index")).unwrap().next().unwrap();
    let files =
        || fs::read_dir(index.as_ref().unwrap().path()).unwrap().map(|it| it.unwrap().path());
    let mut damages = 0;
    for path in files() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let whole = fs::read(&path).unwrap();
        for damage in ["flip", "cut", "empty", "gone", "folder", "link"] {
            let copy = workspace.copy();
            let relative = path.strip_prefix(workspace.path("")).unwrap();
            let path = copy.path(relative.to_str().unwrap());
            let secret = copy.path("secret");
            fs::write(&secret, &whole).unwrap();
            fs::remove_file(&path).unwrap();
            match damage {
                "flip" if !whole.is_empty() => {
                    let mut bytes = whole.clone();
                    bytes[whole.len() / 2] ^= 4;
                    fs::write(&path, bytes).unwrap();
                }
                "cut" => fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
                "empty" => fs::write(&path, "").unwrap(),
                "folder" => fs::create_dir(&path).unwrap(),
                "link" => std::os::unix::fs::symlink(&secret, &path).unwrap(),
                _ => {}
            }
            assert_eq!(found(&copy, 1), right, "{name}: {damage}");
            // Mended, not gone around; and nothing was written through the link.
            assert!(path.symlink_metadata().unwrap().is_file(), "{name}: {damage}");
            assert!(name == "in-use" || fs::read(&path).unwrap() == whole, "{name}: {damage}");
            assert_eq!(fs::read(&secret).unwrap(), whole);
            damages += 1;
        }
    }
    assert!(damages > 20, "{damages}");
}

#[test]
fn a_cache_that_cannot_be_used_costs_time_only() {
    let workspace = Workspace::with(RETRIEVING);
    workspace.run();
    let right = found(&workspace.copy(), 1);
    // In the place of the folder: a file, a link to nowhere.
    for link in [false, true] {
        let copy = workspace.copy();
        let index = copy.path("cache/proofmill/index");
        fs::remove_dir_all(&index).unwrap();
        match link {
            true => std::os::unix::fs::symlink("/dev/null/nowhere", &index).unwrap(),
            false => fs::write(&index, "").unwrap(),
        }
        assert_eq!(found(&copy, 1), right);
    }
}

#[test]
fn runs_that_share_a_damaged_cache_do_not_disturb_each_other() {
    let workspace = Workspace::with(RETRIEVING);
    workspace.run();
    let right = found(&workspace, 1);
    for folder in fs::read_dir(workspace.path("cache/proofmill/index")).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            fs::write(file.unwrap().path(), "damaged").unwrap();
        }
    }
    let run = |n: usize| {
        let (store, param) = (format!("store{n}"), "least=1".to_owned());
        workspace
            .start(&["--store", &store, "run", "p.yaml", "--param", &param], &format!("log{n}"))
    };
    let all: Vec<_> = (0..4).map(run).collect();
    for (n, child) in all.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", workspace.read(&format!("log{n}")));
        let query = "SELECT * FROM found ORDER BY query_id, rank";
        let rows = workspace.json(&["--store", &format!("store{n}"), "sql", query]);
        assert_eq!(rows.as_array().unwrap(), &right);
    }
    for folder in fs::read_dir(workspace.path("cache/proofmill/index")).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap().map(|file| file.unwrap().path()) {
            let is_mended = file.ends_with("in-use") || fs::read(&file).unwrap() != b"damaged";
            assert!(is_mended, "{}", file.display());
        }
    }
}
