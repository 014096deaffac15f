//! What does not change a table makes nothing run again; and the traps where it only looks so.

use std::fs;

use crate::support::{Workspace, set};

fn finished() -> Workspace {
    let workspace = Workspace::of_case("cache");
    workspace.run();
    workspace
}

#[test]
fn cosmetic_edits_compute_nothing() {
    let base = finished();
    for (old, new) in [
        // Comments and white space of the file.
        (
            "stages:\n  questions:",
            "# what is computed\n\nstages:   # all of it\n\n  questions:  # the first",
        ),
        // Order of keys.
        (
            "      variant: lucene\n      k1: 1.2\n      b: 0.75\n",
            "      b: 0.75\n      variant: lucene\n      k1: 1.2\n",
        ),
        ("seed: 7, level: 0.9 }\n\n  versus", "level: 0.9, seed: 7 }\n\n  versus"),
        // Order of stages.
        ("  labels:\n    read: { path: labels.csv }\n\n  asked:", "  asked:"),
        // SQL: case of keywords and functions, white space, comments.
        (
            "SELECT q.row_id, q.code, q.question",
            "select q.row_id,q.code ,\n\n          q.question /* asked */",
        ),
        ("-- one label each", "-- exactly one label each"),
        ("lower(q.topic)", "LOWER (q.topic)"),
        ("correct: hit", "correct: \"hit -- or miss\""),
        ("exclude: topic = 'music'", "exclude: \"topic='music' -- not yet\""),
        // What is for people.
        ("description: Questions with their facts.", "description: Other words."),
        ("description: Every kind of stage once", "description: Every kind"),
        // Quoting, flow and block style, numbers.
        ("path: questions.jsonl", "path: \"questions.jsonl\""),
        ("variant: lucene", "variant: 'lucene'"),
        ("    read: { path: labels.csv }", "    read:\n      path: labels.csv"),
        (
            "    retrieve:\n      from: asked\n      query: question\n      id: row_id\n      memory: memory\n      top_k: 3",
            "    retrieve: { from: asked, query: question, id: row_id, memory: memory, top_k: 3 }",
        ),
        (
            "sql: SELECT topic, count(*) AS n FROM asked GROUP BY topic",
            "sql: |\n      SELECT topic, count(*) AS n\n      FROM asked GROUP BY topic",
        ),
        ("max_error_rate: 0.5", "max_error_rate: 0.50"),
        // What the name of the file, or the default, says anyway.
        ("      path: questions.jsonl", "      path: questions.jsonl\n      format: jsonl"),
        ("      analyzer: word", ""),
        // What only bounds the run.
        ("    max_error_rate: 0.5", "    max_error_rate: 0.5\n    timeout: 90s"),
        // A parameter that nothing uses.
        ("  weight: 2", "  weight: 2\n  unused: 3"),
    ] {
        let workspace = base.copy();
        workspace.edit("p.yaml", old, new);
        if old.starts_with("  labels") {
            let text = workspace.read("p.yaml");
            workspace
                .write("p.yaml", format!("{text}\n  labels:\n    read: {{ path: labels.csv }}\n"));
        }
        assert_eq!(workspace.run(), set(&[]), "`{old}` -> `{new}`");
    }
}

#[test]
fn a_stage_may_be_renamed_except_where_its_name_is_data() {
    let base = finished();
    // `retrieve` names its memory, but the name is not in the result.
    let workspace = base.copy();
    workspace.edit("p.yaml", "  memory:\n", "  facts_index:\n");
    workspace.edit("p.yaml", "memory: memory", "memory: facts_index");
    assert_eq!(workspace.run(), set(&[]));
    // A query is compared as it is written, names of tables included: it runs again, and so does
    // what is below it.
    let workspace = base.copy();
    workspace.edit("p.yaml", "  labels:\n", "  marks:\n");
    workspace.edit("p.yaml", "JOIN labels AS l", "JOIN marks AS l");
    let run = workspace.run();
    assert!(run.contains("asked") && run.contains("export"), "{run:?}");
    assert!(
        !run.contains("marks") && !run.contains("questions") && !run.contains("memory"),
        "{run:?}"
    );
}

/// `compare` writes the names of two tables into its result. It once kept the old ones.
#[test]
fn a_renamed_system_is_another_system() {
    let text = "pipeline: p\nstages:\n  \
        old: { sql: \"SELECT 'a' AS id, true AS hit\" }\n  \
        new: { sql: \"SELECT 'a' AS id, false AS hit\" }\n  \
        versus: { compare: { baseline: old, candidate: new, key: id, correct: hit } }\n";
    let workspace = Workspace::with(text);
    workspace.run();
    workspace.write(
        "p.yaml",
        text.replace("  old:", "  first:").replace("baseline: old", "baseline: first"),
    );
    assert_eq!(workspace.run(), set(&["versus"]));
    assert_eq!(workspace.sql("SELECT baseline FROM versus")[0]["baseline"], "first");
}

#[test]
fn sources_are_told_by_their_bytes_not_by_their_paths() {
    let base = finished();
    let (old, new) = (base.path("questions.jsonl"), base.path("elsewhere/q.jsonl"));
    fs::create_dir(base.path("elsewhere")).unwrap();
    fs::rename(old, new).unwrap();
    base.edit("p.yaml", "path: questions.jsonl", "path: elsewhere/q.jsonl");
    assert_eq!(base.run(), set(&[]));
}

/// The same bytes under a name that tells another format are another table. They once were not.
#[test]
fn the_name_of_a_source_may_tell_its_format() {
    let workspace = Workspace::with("pipeline: p\nstages:\n  t: { read: { path: t.csv } }\n");
    workspace.write("t.csv", "line\n\"x\"\n");
    workspace.run();
    fs::rename(workspace.path("t.csv"), workspace.path("t.tsv")).unwrap();
    workspace.edit("p.yaml", "t.csv", "t.tsv");
    assert_eq!(workspace.run(), set(&["t"]));
    assert_eq!(workspace.sql("SELECT line FROM t")[0]["line"], "\"x\"");
}

/// Queries that differ in what looks cosmetic. Each pair was a stale hit once.
#[test]
fn queries_that_only_look_alike() {
    for (first, second) in [
        ("'a' IN ('a', 'b')", "'a' IN ('a'' , ''b')"),
        ("'a' IN (E'a', E'b')", "'a' IN (E'a\\' , E\\'b')"),
        ("get_field({A: true, a: false}, 'a')", "get_field({a: true, A: false}, 'a')"),
        ("struct(true AS A, false AS a)['a']", "struct(true AS a, false AS A)['a']"),
        ("É", "é"),
    ] {
        let query = |x: &str| {
            format!(
                "pipeline: p\nstages:\n  t:\n    sql: |\n      SELECT {x} AS x FROM (SELECT true AS \"É\", false AS \"é\") AS s\n"
            )
        };
        let workspace = Workspace::with(&query(first));
        workspace.run();
        let before = workspace.sql("SELECT x FROM t");
        workspace.write("p.yaml", query(second));
        assert_eq!(workspace.run(), set(&["t"]), "{first} and {second}");
        assert_ne!(workspace.sql("SELECT x FROM t"), before, "{first} and {second}");
    }
}

#[test]
fn checks_are_not_part_of_a_table_but_hold_for_it() {
    let base = finished();
    let with_check = |check: &str| {
        let workspace = base.copy();
        let new = format!("    checks:\n      - not_null: question\n      - {check}\n");
        workspace.edit("p.yaml", "    checks:\n      - not_null: question\n", &new);
        workspace
    };
    let without = base.copy();
    without.edit("p.yaml", "    checks:\n      - not_null: question\n", "");
    assert_eq!(without.run(), set(&[]));
    assert_eq!(with_check("expect: level >= 0").run(), set(&[]));

    // A new check of a stored table is evaluated, and a run in which it fails is not published.
    let failing = with_check("expect: level >= 1");
    let done = failing.proofmill(&["run", "p.yaml", "--json"]).expect(1);
    assert!(done.stderr.contains("expect level >= 1"), "{}", done.stderr);
    assert_eq!(done.json()["outcome"], "failed");
    let runs = failing.json(&["runs"]);
    assert_eq!(runs[0]["outcome"], "failed");
    // It still fails the next time: the verdict is not forgotten.
    failing.proofmill(&["run", "p.yaml"]).expect(1);
    // As a warning it is said and nothing more.
    failing.edit("p.yaml", "- expect: level >= 1", "- { expect: level >= 1, severity: warn }");
    failing.proofmill(&["run", "p.yaml"]).expect(0).says("expect level >= 1");
}

#[test]
fn what_differs_between_runs_is_never_taken_from_the_store() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  steady: { sql: 'SELECT 1 AS x, 1 AS y' }
  chance: { sql: 'SELECT random() AS x, 1 AS y' }
  clock: { sql: SELECT now() AS x }
  day: { sql: SELECT current_date AS x }
  name: { sql: SELECT uuid() AS x }
  nested: { sql: SELECT x FROM (SELECT x FROM steady WHERE x > random() - 5) AS t }
  measured: { measure: { from: steady, metrics: { r: random() } } }
  compared: { compare: { baseline: steady, candidate: chance, key: y, metrics: { r: random() } } }
  below: { sql: SELECT x FROM chance }
",
    );
    let all =
        ["steady", "chance", "clock", "day", "name", "nested", "measured", "compared", "below"];
    assert_eq!(workspace.run(), set(&all));
    let first = workspace.sql("SELECT x FROM chance");
    assert_eq!(workspace.run(), set(&all[1..]), "only what is the same every time is kept");
    assert_ne!(workspace.sql("SELECT x FROM chance"), first);
    for (stage, function) in [
        ("chance", "random"),
        ("clock", "now"),
        ("day", "current_date"),
        ("name", "uuid"),
        ("nested", "random"),
        ("measured", "random"),
        ("compared", "random"),
    ] {
        let reason = workspace.reason(stage);
        assert!(reason.contains(function) && reason.contains("differs between runs"), "{reason}");
    }
}

/// Two stores may hold the same memory with its rows in another order, because the order of a
/// query's rows depends on the cores. The opened index of one was once used with the facts of the
/// other.
#[test]
fn an_opened_index_belongs_to_its_facts() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  many: { sql: \"SELECT value AS v, value % 50 AS k FROM generate_series(1, 120000)\" }
  facts: { sql: SELECT 'word' || (100 + k) AS fact FROM many GROUP BY k }
  queries: { sql: \"SELECT fact AS row_id, fact AS q FROM facts ORDER BY fact\" }
  memory: { index: { from: facts } }
  found: { retrieve: { from: queries, query: q, memory: memory, top_k: 1 } }
",
    );
    for (store, jobs) in [("one", "1"), ("two", "2"), ("three", "4")] {
        workspace.json(&["run", "p.yaml", "--store", store, "--jobs", jobs]);
        let wrong = "SELECT count(*) AS n FROM found WHERE query_id <> fact";
        let found = workspace.json(&["sql", wrong, "--store", store]);
        assert_eq!(found[0]["n"], 0, "with {jobs} jobs");
    }
}
