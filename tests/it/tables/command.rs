//! Programs of users as stages: tables in and out, and every way in which a program can fail.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::support::{Workspace, executed, set};

/// How long something may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than a pipe holds.
const MANY_ROWS: usize = 200_000;

/// A pipeline with a stage `asked` of `rows` rows, and the stages of `yaml`.
fn workspace(rows: usize, yaml: &str) -> Workspace {
    Workspace::with(&format!(
        "pipeline: own\nstages:\n  asked:\n    sql: |\n      SELECT 'q' || n AS row_id, n, n / 4.0 AS share, n > 2 AS late, \
         [n, n + 1] AS parts\n      FROM (SELECT unnest(range(1, {})) AS n) AS t\n{yaml}\n",
        rows + 1
    ))
}

/// A stage `own` that runs `sh` with a script, `more` beside it.
fn shell(rows: usize, script: &str, more: &str) -> Workspace {
    let workspace = workspace(
        rows,
        &format!(
            "  own:\n    command: {{ run: [sh, own.sh], from: asked, code: [own.sh], columns: {{ row_id: string, n: integer }} }}\n{more}"
        ),
    );
    workspace.write("own.sh", script);
    workspace
}

/// A stage `own` that calls a function `own` of `own.py`.
fn python(rows: usize, text: &str, settings: &str, more: &str) -> Workspace {
    let workspace = workspace(
        rows,
        &format!(
            "  own:\n    python: {{ file: own.py, function: own, from: asked, columns: {{ row_id: string, n: integer }}{settings} }}\n{more}"
        ),
    );
    workspace.write("own.py", text);
    workspace
}

/// Runs a pipeline that must fail because of the stage `own`, of which nothing may be published.
#[track_caller]
fn fails(workspace: &Workspace, says: &[&str]) -> String {
    let began = Instant::now();
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    assert!(began.elapsed() < PATIENCE, "it hung");
    for text in says {
        assert!(done.stderr.contains(text), "`{text}` is not in:\n{}", done.stderr);
    }
    let why = workspace.json(&["why", "p.yaml", "own"]);
    let fingerprint = why["fingerprint"].as_str().unwrap().to_owned();
    let published = workspace.keys(&format!("{fingerprint}.json"));
    assert_eq!(published, [""; 0], "a stage that failed was published");
    done.stderr
}

fn rows(workspace: &Workspace, table: &str) -> Vec<Json> {
    workspace.sql(&format!("SELECT * FROM {table}"))
}

/// Waits until `ready` gives something.
#[track_caller]
fn wait<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} did not happen");
        sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there and has not ended.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Waits for the ids that a script wrote, one a line, into `pids`.
fn pids(workspace: &Workspace, count: usize) -> Vec<String> {
    wait("the script's beginning", || {
        let text = fs::read_to_string(workspace.path("pids")).unwrap_or_default();
        let pids: Vec<String> = text.lines().map(str::to_owned).collect();
        (text.ends_with('\n') && pids.len() == count).then_some(pids)
    })
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn tables_go_in_and_out_in_every_format() {
    let columns = "{ row_id: string, n: integer, share: number, late: boolean, parts: { type: integer, list: true } }";
    let copies = [
        ("jsonl", "[cat]"),
        ("arrow", "[cat]"),
        ("parquet", "[sh, -c, 'cp \"$PROOFMILL_INPUT\" \"$PROOFMILL_OUTPUT\"; echo some words']"),
    ];
    let stages = copies.map(|(format, run)| {
        format!("  {format}:\n    command: {{ run: {run}, from: asked, format: {format}, columns: {columns}, pure: true }}")
    });
    let workspace = workspace(20_000, &stages.join("\n"));
    workspace.run();
    for (format, _) in copies {
        let different = format!(
            "SELECT count(*) AS n FROM asked AS a FULL JOIN {format} AS b ON a.row_id = b.row_id AND a.n = b.n AND a.share = b.share \
             AND a.late = b.late AND a.parts = b.parts WHERE a.row_id IS NULL OR b.row_id IS NULL"
        );
        assert_eq!(workspace.sql(&different), [json!({"n": 0})], "{format}");
        // In their order.
        assert_eq!(
            rows(&workspace, &format!("{format} LIMIT 3")),
            rows(&workspace, "asked LIMIT 3")
        );
    }
    assert_eq!(workspace.run(), set(&[]));
}

#[test]
fn an_empty_table_goes_through_every_format() {
    let stages = ["jsonl", "arrow"].map(|format| {
        format!("  {format}:\n    command: {{ run: [cat], from: none, format: {format}, columns: {{ n: integer }}, pure: true }}")
    });
    let workspace = workspace(
        3,
        &format!("  none: {{ sql: SELECT n FROM asked WHERE n > 9 }}\n{}", stages.join("\n")),
    );
    workspace.run();
    assert_eq!((rows(&workspace, "jsonl"), rows(&workspace, "arrow")), (vec![], vec![]));
}

#[test]
fn further_inputs_are_files_and_a_program_may_have_none_at_all() {
    let workspace = workspace(
        5,
        "  few: { sql: SELECT n FROM asked WHERE n < 3 }
  both:
    command:
      run: [sh, -c, 'printf ''{\"a\":%s,\"b\":%s,\"c\":%s}\\n'' $(wc -l) $(wc -l <\"$PROOFMILL_INPUT_FEW\") $(wc -l <\"$PROOFMILL_INPUT_ALL_ROWS\")']
      from: few
      inputs: { few: few, all_rows: asked }
      columns: { a: integer, b: integer, c: integer }
      pure: true
  alone:
    command: { run: [sh, -c, 'cat; echo {\\\"here\\\":\\\"$(basename \"$PWD\")\\\",\\\"mode\\\":\\\"$MODE\\\"}'], folder: sub, vars: { MODE: fast }, columns: { here: string, mode: string }, pure: true }",
    );
    fs::create_dir(workspace.path("sub")).unwrap();
    workspace.run();
    assert_eq!(rows(&workspace, "both"), [json!({"a": 2, "b": 2, "c": 5})]);
    assert_eq!(rows(&workspace, "alone"), [json!({"here": "sub", "mode": "fast"})]);
}

#[test]
fn a_function_is_called_for_rows_and_for_batches() {
    let row = "def own(row, factor, mode):\n    print('loud', mode)\n    if row['n'] == 2:\n        return None\n    \
        if row['n'] == 3:\n        return [{'row_id': 'x', 'n': 1}, {'row_id': 'y', 'n': 2}]\n    \
        return {'row_id': row['row_id'], 'n': row['n'] * factor}\n";
    let by_row = python(4, row, ", arguments: { factor: 10, mode: fast }", "");
    by_row.run();
    let expected = [("q1", 10), ("x", 1), ("y", 2), ("q4", 40)];
    let expected = expected.map(|(id, n)| json!({"row_id": id, "n": n}));
    assert_eq!(rows(&by_row, "own"), expected);

    // However the table is stored, the calls are the same.
    let batch =
        "import os\ndef own(rows):\n    return [{'row_id': rows[0]['row_id'], 'n': len(rows)}]\n";
    let by_batch = python(2500, batch, ", by: batch, batch_rows: 1000", "");
    by_batch.run();
    let expected = [("q1", 1000), ("q1001", 1000), ("q2001", 500)];
    assert_eq!(rows(&by_batch, "own"), expected.map(|(id, n)| json!({"row_id": id, "n": n})));
}

#[test]
fn arrow_batches_where_pyarrow_is_there_and_a_clear_error_where_not() {
    let text = "import pyarrow\ndef own(batch):\n    return batch.select(['row_id', 'n'])\n";
    let workspace = python(2500, text, ", by: arrow, batch_rows: 1000", "");
    let has_pyarrow = Command::new("python3").args(["-c", "import pyarrow"]).output().unwrap();
    if has_pyarrow.status.success() {
        workspace.run();
        assert_eq!(
            workspace.sql("SELECT count(*) AS n, sum(n) AS s FROM own"),
            [json!({"n": 2500, "s": 3126250})]
        );
        return;
    }
    fails(&workspace, &["own.py:1: ModuleNotFoundError: No module named 'pyarrow'"]);
    workspace.write("own.py", "def own(batch):\n    return batch\n");
    fails(&workspace, &["`by: arrow` needs pyarrow in "]);
}

#[test]
fn a_traceback_is_placed_at_file_and_line() {
    let row = "import json\n\ndef inner(row):\n    return json.loads(row['row_id'])\n\n\ndef own(row):\n    return inner(row)\n";
    let said = fails(
        &python(3, row, "", ""),
        &[
            "3 rows of 3 from `own.py` failed:",
            "q1: own.py:4: json.decoder.JSONDecodeError: Expecting value",
        ],
    );
    assert!(!said.contains("<string>"), "{said}");

    let module = "x = 1\ndef own(row):\n    pass\nint('many')\n";
    fails(
        &python(3, module, "", ""),
        &[
            "`own.py` ended with exit code 1: own.py:4: ValueError: invalid literal",
            "| int('many')",
        ],
    );
    let syntax = "def own(row):\n    return (\n";
    fails(&python(3, syntax, "", ""), &["own.py:2: SyntaxError"]);
    for (end, says) in [
        ("sys.exit(0)", "`own.py` ended Python with `sys.exit`, and rows are missing"),
        ("os._exit(0)", "ended with exit code 0 before all rows were answered"),
        ("os.kill(os.getpid(), 9)", "was ended by signal 9 (SIGKILL"),
    ] {
        let text = format!("import os, sys\ndef own(row):\n    {end}\n");
        fails(&python(3, &text, "", ""), &[says]);
    }
    for (answer, says) in [
        ("{'row_id': 'a'}", "line 1: there is no `n`"),
        ("{'row_id': 'a', 'n': 'b'}", "a: column `n`: expected a whole number, found the text `b`"),
        ("{'row_id': 'a', 'n': 1, 'm': 2}", "a: `m` is not among `columns`"),
        ("{'row_id': 'a', 'n': None}", "a: column `n` is null"),
        ("{'row_id': 'a', 'n': float('nan')}", "q1: own.py: ValueError"),
        ("'text'", "q1: own.py: TypeError: `own` gave a str where a dict was expected"),
        ("{'row_id': 'a', 'n': {1}}", "q1: own.py: TypeError: a set is no value"),
    ] {
        let said = fails(
            &python(1, &format!("def own(row):\n    return {answer}\n"), "", ""),
            &["1 row of 1 from `own.py` failed:"],
        );
        assert!(said.contains(says.trim_start_matches("line 1: ")), "{answer}: {said}");
    }
}

#[test]
fn rows_that_fail_become_error_rows_up_to_a_share() {
    let text = "def own(row):\n    if row['n'] == 2:\n        raise ValueError('two')\n    return {'row_id': row['row_id'], 'n': row['n']}\n";
    let workspace = python(4, text, "", "    max_error_rate: 0.25");
    let run = workspace.json(&["run", "p.yaml"]);
    let own =
        run["stages"].as_array().unwrap().iter().find(|stage| stage["stage"] == "own").unwrap();
    assert_eq!((&own["rows"], &own["error_rows"]), (&json!(3), &json!(1)));
    let errors = rows(&workspace, "own__errors");
    assert_eq!(errors.len(), 1);
    let error = &errors[0];
    assert_eq!(
        (&error["source"], &error["row"], &error["class"]),
        (&json!("q2"), &json!(2), &json!("program"))
    );
    assert_eq!(error["message"], "own.py:3: ValueError: two");
    assert!(error["raw"].as_str().unwrap().contains("\"row_id\":\"q2\""), "{error}");

    workspace.edit("p.yaml", "0.25", "0.24");
    fails(&workspace, &["1 row of 4 from `own.py` failed:", "q2: own.py:3: ValueError: two"]);
    // With `fail` the first one ends it: the others would take years.
    let slow = format!(
        "import time\n{}",
        text.replace("    return", "    time.sleep((row['n'] > 2) * 1e9)\n    return")
    );
    fails(&python(4, &slow, "", "    on_error: fail"), &["1 row of 2 from `own.py` failed:"]);
}

#[test]
fn every_way_to_write_a_wrong_table_is_told() {
    for (script, says) in [
        ("exit 3", "`sh` ended with exit code 3 and wrote nothing to standard error"),
        ("echo no file >&2; exit 1", "`sh` ended with exit code 1:\n      | no file"),
        ("nothing-like-this", "exit code 127: a command that it starts was not found"),
        ("kill -9 $$", "was ended by signal 9 (SIGKILL"),
        ("cat; kill -11 $$", "was ended by signal 11 (SIGSEGV)"),
        ("echo garbage", "failed:\n      line 1: character 1: expected a value"),
        ("head -c 300000 /dev/urandom", "from `sh` failed:"),
        (r#"printf '{"row_id":"a","n":1}\n{"row_id":"b"'"#, "output of `sh`: ends within line 2"),
        (r#"printf '{"row_id":"a","n":1}\n{"row_id":"b","n"'; exit 4"#, "ended with exit code 4"),
        (r#"echo '{"row_id":"a"}'"#, "a: there is no `n`"),
        (
            r#"echo '{"row_id":"a","n":1.5}'"#,
            "a: column `n`: expected a whole number, found the number `1.5`",
        ),
        (
            r#"echo '{"row_id":"a","n":1,"m":1}'"#,
            "a: `m` is not among `columns`: did you mean `n`?",
        ),
        (
            r#"echo '{"row_id":null,"n":1}'"#,
            "column `row_id` is null; declare it with `nullable: true`",
        ),
        (r#"echo '{"row_id":"a","$error":"not today"}'"#, "a: not today"),
    ] {
        fails(&shell(3, script, ""), &[says]);
    }
}

#[test]
fn wrong_arrow_and_parquet_are_told() {
    let of = |format: &str, script: &str, columns: &str| {
        let own = format!(
            "  own:\n    command: {{ run: [sh, own.sh], from: asked, format: {format}, columns: {columns}, code: [own.sh] }}"
        );
        let workspace = workspace(2000, &own);
        workspace.write("own.sh", script);
        workspace
    };
    let all = "row_id: string, n: integer, share: number, late: boolean, parts: { type: integer, list: true }";
    let whole = format!("{{ {all} }}");
    for (script, columns, says) in [
        ("echo garbage", whole.as_str(), "message 1 does not begin like an Arrow IPC message"),
        ("head -c 2000", &whole, "ends within an Arrow IPC stream"),
        ("head -c 2000; echo sorry >&2; exit 2", &whole, "ended with exit code 2:\n      | sorry"),
        ("cat; echo more", &whole, "bytes after the end of the stream"),
        ("printf '\\377\\377\\377\\377\\377\\377\\377\\177'", &whole, "length 2147483647"),
        ("cat", "{ row_id: string }", "column `n` is not among `columns`"),
        ("cat", &format!("{{ {all}, why: string }}"), "has no column `why`"),
        (
            "cat",
            &whole.replace("n: integer", "n: string"),
            "column `n`: expected Utf8, found Int64",
        ),
    ] {
        fails(
            &of("arrow", script, columns),
            &["output of `sh`", says]
                .map(|says| if script.contains("exit") { "sorry" } else { says }),
        );
    }
    for (script, says) in [
        ("exit 0", "is not a readable Parquet file: No such file"),
        ("echo garbage > \"$PROOFMILL_OUTPUT\"", "is not a readable Parquet file"),
        (
            "head -c 900 \"$PROOFMILL_INPUT\" > \"$PROOFMILL_OUTPUT\"",
            "is not a readable Parquet file",
        ),
        ("ln -s \"$PROOFMILL_INPUT\" \"$PROOFMILL_OUTPUT\"", "is not a readable Parquet file"),
        ("mkdir \"$PROOFMILL_OUTPUT\"", "is not a readable Parquet file"),
        ("echo loud words; exit 9", "ended with exit code 9:\n      | loud words"),
    ] {
        fails(&of("parquet", script, &whole), &[says]);
    }
}

#[test]
fn full_pipes_in_both_directions_block_nothing() {
    // It writes more than a pipe holds before it reads, and leaves much unread.
    let rows_of = |n: usize| {
        format!(
            "i=0; while [ $i -lt {n} ]; do i=$((i + 1)); echo \"{{\\\"row_id\\\":\\\"r$i\\\",\\\"n\\\":$i}}\"; done"
        )
    };
    for script in [
        format!("{}; cat >/dev/null", rows_of(20_000)),
        format!("exec <&-; {}", rows_of(20_000)),
        format!("head -n 2 >/dev/null; {}", rows_of(20_000)),
        format!(
            "yes >&2 | head -n 100000; yes some words | head -n 100000 >&2; {}; cat >/dev/null",
            rows_of(20_000)
        )
        .replacen("yes >&2 | head -n 100000; ", "", 1),
    ] {
        let workspace = shell(MANY_ROWS, &script, "");
        workspace.run();
        assert_eq!(
            workspace.sql("SELECT count(*) AS n, max(n) AS m FROM own"),
            [json!({"n": 20_000, "m": 20_000})]
        );
    }
}

#[test]
fn output_without_end_is_ended() {
    let endless = shell(3, "yes garbage", "    on_error: fail");
    fails(&endless, &["1 row of 1 from `sh` failed"]);
    let many = shell(3, "yes garbage", "");
    fails(&many, &["100001 rows of 100001 from `sh` failed", "and 99998 more"]);
    let one_line = shell(3, "exec cat /dev/zero", "");
    fails(&one_line, &["output of `sh`: line 1 is longer than 64 MiB"]);
    let rows = shell(3, "yes '{\"row_id\":\"a\",\"n\":1}'", "    timeout: 2s");
    rows.proofmill(&["run", "p.yaml"]).expect(5).says("it took longer than its timeout of 2s");
}

#[test]
fn what_hangs_is_killed_with_all_that_it_started() {
    // Neither SIGTERM nor the end of its input nor that of its parent ends it.
    let stubborn = "trap '' TERM INT HUP\nsh -c 'trap \"\" TERM INT HUP; echo $$ >> pids; while :; do sleep 1; done' &\necho $$ >> pids\nwhile :; do sleep 1; done\n";
    let late = shell(3, stubborn, "    timeout: 1s");
    late.proofmill(&["run", "p.yaml"]).expect(5).says("it took longer than its timeout of 1s");
    let found = pids(&late, 2);
    wait("the end of all processes", || (!found.iter().any(|pid| lives(pid))).then_some(()));

    for (name, code) in [("INT", Some(130)), ("KILL", None)] {
        let workspace = shell(3, stubborn, "");
        let mut run = workspace.start(&["run", "p.yaml"], "run.log");
        let found = pids(&workspace, 2);
        assert!(found.iter().all(|pid| lives(pid)));
        signal(run.id(), name);
        assert_eq!(run.wait().unwrap().code(), code, "{}", workspace.read("run.log"));
        wait("the end of all processes", || (!found.iter().any(|pid| lives(pid))).then_some(()));
        // Nothing is left of it, and it can be run again.
        workspace.write("own.sh", "cat >/dev/null; echo '{\"row_id\":\"a\",\"n\":1}'");
        workspace.run();
        assert_eq!(rows(&workspace, "own"), [json!({"row_id": "a", "n": 1})]);
    }
}

#[test]
fn what_a_program_leaves_behind_is_ended_with_it() {
    let leaves = "sleep 1000 >/dev/null 2>&1 & echo $! >> pids; cat";
    let workspace = workspace(
        3,
        "  own:\n    command: { run: [sh, own.sh], from: few, code: [own.sh], columns: { n: integer } }\n  few: { sql: SELECT n FROM asked }",
    );
    workspace.write("own.sh", leaves);
    workspace.run();
    assert_eq!(rows(&workspace, "own").len(), 3);
    let found = pids(&workspace, 1);
    wait("the end of what was left", || (!lives(&found[0])).then_some(()));

    // It holds the pipe, so that nobody can know whether all rows have come.
    let holds = shell(3, "sleep 1000 & echo $! >> pids; echo '{\"row_id\":\"a\",\"n\":1}'", "");
    fails(
        &holds,
        &["`sh` has ended, but a process that it started holds its standard output open"],
    );
    let found = pids(&holds, 1);
    wait("the end of what was left", || (!lives(&found[0])).then_some(()));
}

#[test]
fn memory_is_limited_for_all_processes_together() {
    // Each of the three takes a third of too much.
    let text = "import os, time\ndef own(row):\n    for _ in range(2):\n        if os.fork() == 0:\n            break\n    \
        held = bytearray(os.urandom(1 << 20)) * 60\n    held[::4096] = b'x' * len(held[::4096])\n    time.sleep(1e6)\n";
    let workspace = python(1, text, ", memory_mib: 150", "");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(5);
    done.says("`own.py` and its child processes took more than 150 MiB of memory")
        .says("raise `memory_mib`");
    let modest = python(
        1,
        "def own(row):\n    held = b'x' * (40 << 20)\n    return {'row_id': 'a', 'n': len(held)}\n",
        ", memory_mib: 150",
        "",
    );
    modest.run();
}

#[test]
fn the_environment_is_what_was_named_and_values_are_nowhere() {
    const SECRET: &str = "very-s3cret-value";
    let script = "cat >/dev/null; echo \"key $MY_KEY other ${MY_OTHER-none}\" >&2\n\
        printf '{\"row_id\":\"%s\",\"n\":%s}\\n' \"${MY_OTHER-none}\" $(env | grep -c '^MY_')\n\
        printf '{\"row_id\":\"b\",\"$error\":\"key %s\"}\\n' \"$MY_KEY\"";
    let workspace = shell(3, script, "    max_error_rate: 0.5");
    workspace.edit("p.yaml", "from: asked,", "from: asked, env: [MY_KEY],");
    let mut run = workspace.command(&["run", "p.yaml", "--log", "info"]);
    let output = run.env("MY_KEY", SECRET).env("MY_OTHER", "passed").output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    assert!(log.contains("program wrote") && log.contains("key *** other none"), "{log}");
    assert_eq!(rows(&workspace, "own"), [json!({"row_id": "none", "n": 1})]);
    assert_eq!(rows(&workspace, "own__errors")[0]["message"], "key ***");
    for key in workspace.keys("") {
        // The row itself is the program's own, and so is what it keeps of itself in an error row.
        let bytes = fs::read(workspace.path("store").join(&key)).unwrap();
        let is_part = key.ends_with(".parquet");
        let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(is_part || !found, "{key} has the value");
    }
    assert!(!log.contains(SECRET) && !String::from_utf8_lossy(&output.stdout).contains(SECRET));

    // What is in the store needs none; what has to be computed does.
    workspace
        .proofmill(&["run", "p.yaml"])
        .expect(0)
        .says("warning[E0406]")
        .says("`MY_KEY` is not set");
    workspace.edit("own.sh", "key $MY_KEY", "the key $MY_KEY");
    fails(&workspace, &["the environment variable `MY_KEY` is not set"]);
}

#[test]
fn what_decides_the_table_counts_and_what_is_not_said_is_not_cached() {
    let script = "cat >/dev/null; sh lib/inner.sh";
    let workspace = shell(3, script, "  after: { sql: SELECT n FROM own }");
    workspace.write("lib/inner.sh", "echo '{\"row_id\":\"a\",\"n\":1}'");
    workspace.edit("p.yaml", "code: [own.sh]", "code: [own.sh, lib]");
    workspace.run();
    assert_eq!(workspace.run(), set(&[]));
    workspace.write("lib/inner.sh", "echo '{\"row_id\":\"a\",\"n\":2}'");
    assert_eq!(workspace.reason("own"), "code.lib/inner.sh changed");
    assert_eq!(workspace.run(), set(&["own", "after"]));
    assert_eq!(rows(&workspace, "after"), [json!({"n": 2})]);
    workspace.write("lib/unused.sh", "");
    assert_eq!(workspace.run(), set(&["own", "after"]));

    workspace.edit("p.yaml", "code: [own.sh, lib], ", "");
    let why = "the files that its output depends on are not declared: name them in `code`, or set `pure: true`";
    for _ in 0..2 {
        assert!(workspace.run().contains("own"));
        assert_eq!(workspace.reason("own"), why);
    }
    assert!(workspace.json(&["why", "p.yaml", "own"]).to_string().contains("name them in `code`"));
    workspace.edit("p.yaml", "from: asked,", "from: asked, pure: true,");
    workspace.run();
    assert_eq!(workspace.run(), set(&[]));
    workspace.edit("p.yaml", "pure: true,", "pure: false, code: [own.sh, lib],");
    workspace.run();
    assert!(workspace.run().contains("own"));
    assert_eq!(workspace.reason("own"), "it is declared `pure: false`");
}

#[test]
fn code_that_changes_while_it_runs_is_not_published() {
    let workspace =
        shell(3, "cat >/dev/null; echo '{\"row_id\":\"a\",\"n\":1}'; echo '# more' >> own.sh", "");
    fails(&workspace, &["`own.sh` has changed since the pipeline was read"]);
}

#[test]
fn a_module_that_is_imported_must_be_declared() {
    let text =
        "import helper\ndef own(row):\n    return {'row_id': row['row_id'], 'n': helper.N}\n";
    let workspace = python(2, text, "", "");
    workspace.write("helper.py", "N = 1\n");
    fails(&workspace, &["`helper.py` is imported and not declared: name it in `code`"]);
    workspace.edit("p.yaml", "file: own.py,", "file: own.py, code: [helper.py],");
    workspace.run();
    workspace.write("helper.py", "N = 2\n");
    assert_eq!(workspace.run(), set(&["own"]));
    assert_eq!(rows(&workspace, "own")[0]["n"], 2);
    // One that is imported only on the way is found as well.
    workspace.write(
        "own.py",
        "def own(row):\n    import late\n    return {'row_id': row['row_id'], 'n': late.N}\n",
    );
    workspace.write("late.py", "N = 3\n");
    fails(&workspace, &["`late.py` is imported and not declared"]);
    workspace.edit("p.yaml", "file: own.py,", "file: own.py, pure: true,");
    workspace.run();
}

#[test]
fn two_runs_at_once_give_the_same_table() {
    let text = "import time\ndef own(row):\n    time.sleep(0.001)\n    return {'row_id': row['row_id'], 'n': row['n']}\n";
    let workspace = python(500, text, "", "");
    let runs: Vec<_> = ["a.log", "b.log"]
        .iter()
        .map(|log| workspace.start(&["run", "p.yaml", "--json"], log))
        .collect();
    for (run, log) in runs.into_iter().zip(["a.log", "b.log"]) {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", workspace.read(log));
    }
    assert_eq!(workspace.run(), set(&[]));
    assert_eq!(
        workspace.sql("SELECT count(*) AS n, sum(n) AS s FROM own"),
        [json!({"n": 500, "s": 125_250})]
    );
}

#[test]
fn a_run_that_was_killed_goes_on() {
    let script = "test -e slow && echo $$ >> pids && sleep 1000\ncat";
    let workspace = workspace(
        3,
        "  few: { sql: SELECT n FROM asked }
  first:
    command: { run: [cat], from: few, columns: { n: integer }, pure: true }
  second:
    command: { run: [sh, own.sh], from: first, columns: { n: integer }, code: [own.sh] }",
    );
    workspace.write("own.sh", script);
    workspace.write("slow", "");
    let mut run = workspace.start(&["run", "p.yaml"], "run.log");
    pids(&workspace, 1);
    run.kill().unwrap();
    run.wait().unwrap();
    fs::remove_file(workspace.path("slow")).unwrap();
    let second = workspace.json(&["run", "p.yaml"]);
    assert_eq!(executed(&second), set(&["second"]));
    assert_eq!(rows(&workspace, "second").len(), 3);
}
