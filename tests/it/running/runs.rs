//! What a run leaves behind and how it is looked at: `runs`, `show`, `sql`, selections, exit codes,
//! and which stream says what.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::support::{Workspace, executed, set, with_status};

const CHAIN: &str = "\
pipeline: chain
params: { least: 1 }
stages:
  a: { sql: \"SELECT 1 AS x, 'one' AS stage\" }
  b: { sql: \"SELECT x + ${params.least} AS x FROM a\" }
  c: { sql: SELECT x * 2 AS x FROM b }
  other: { sql: SELECT 5 AS x }
  score: { measure: { from: c, metrics: { x: x } } }
";

/// `bad` fails; `below` needs it; the rest does not.
const HALF: &str = "\
pipeline: half
stages:
  a: { sql: SELECT 0 AS x }
  bad: { sql: SELECT 1 / x AS y FROM a }
  below: { sql: SELECT y FROM bad }
  fine: { sql: SELECT x + 1 AS x FROM a }
  finer: { sql: SELECT x + 1 AS x FROM fine }
";

#[test]
fn are_listed_and_shown() {
    let workspace = Workspace::with(CHAIN);
    assert_eq!(workspace.json(&["runs"]), Json::Array(Vec::new()));
    workspace.run();
    workspace.json(&["run", "p.yaml", "--param", "least=2"]);
    let runs = workspace.json(&["runs"]);
    assert_eq!(runs.as_array().unwrap().len(), 2, "newest first");
    assert_eq!((&runs[0]["computed"], &runs[0]["cached"]), (&Json::from(3), &Json::from(2)));
    assert_eq!((&runs[1]["computed"], &runs[1]["cached"]), (&Json::from(5), &Json::from(0)));
    assert_eq!(
        (&runs[0]["params"]["least"], &runs[1]["params"]["least"]),
        (&Json::from(2), &Json::from(1))
    );
    assert_eq!(workspace.json(&["runs", "--limit", "1"]).as_array().unwrap().len(), 1);

    let latest = workspace.json(&["show"]);
    assert_eq!((&latest["run"], &latest["outcome"]), (&runs[0]["run"], &Json::from("succeeded")));
    assert_eq!(with_status(&latest, "cached"), set(&["a", "other"]));
    let first = runs[1]["run"].as_str().unwrap();
    assert_eq!(with_status(&workspace.json(&["show", "--run", first]), "cached"), set(&[]));
    // Both runs keep their own tables.
    assert_eq!(workspace.json(&["show", "c"])["rows"][0]["x"], 6);
    let shown = workspace.json(&["show", "c", "--run", first]);
    assert_eq!(shown["rows"][0]["x"], 4);
    assert_eq!(shown["artifact"]["created_by"], first);
    let text = workspace.proofmill(&["show", "c"]).expect(0).stdout;
    assert!(text.contains("fingerprint") && text.contains("sha256"), "{text}");

    workspace.proofmill(&["show", "d"]).expect(2).says("has no stage `d`");
    workspace
        .proofmill(&["show", "--run", "20200101-000000000-aaaaaa"])
        .expect(2)
        .says("has no run");
}

#[test]
fn are_named_by_beginnings_pipelines_and_how_many_before() {
    let workspace = Workspace::with(CHAIN);
    workspace.run();
    workspace.json(&["run", "p.yaml", "--param", "least=2"]);
    let runs = workspace.json(&["runs"]);
    let [new, old] = [&runs[0], &runs[1]].map(|run| run["run"].as_str().unwrap());
    let named = |name: &str| workspace.json(&["show", "--run", name])["run"].clone();
    for (name, run) in [
        ("latest", new),
        ("latest~1", old),
        ("chain", new),
        ("chain~0", new),
        ("chain~1", old),
        (&old[..old.len() - 2], old),
    ] {
        assert_eq!(named(name), run, "{name}");
    }
    let refused = |name: &str| workspace.proofmill(&["show", "--run", name]).expect(2);
    refused("chain~2").says("fewer than 3 runs of `chain` have succeeded");
    refused("chain@good").says("no run of `chain` has passed a gate");
    refused("chain@baseline").says("`proofmill channel pin` pins one");
    refused("half").says("no run of a pipeline `half`");
    refused("2").says("2 runs begin with `2`").says("give a longer prefix");
    refused("Chain").says("names no run").says("`~N` after either");
    refused("chain~x").says("expected a whole number after `~`");

    // Another pipeline, which fails: what is shown is said.
    workspace.write("half.yaml", HALF);
    workspace.proofmill(&["run", "half.yaml"]).expect(1);
    let failed = workspace.json(&["runs", "--pipeline", "half"])[0]["run"].clone();
    let shown = workspace.proofmill(&["show"]).expect(0).says("did not succeed (failed)");
    assert!(shown.stdout.contains(failed.as_str().unwrap()), "{}", shown.stdout);
    assert_eq!(named("chain"), new);
    workspace.write("half.yaml", HALF.replace("1 / x", "1 + x"));
    workspace.proofmill(&["run", "half.yaml"]).expect(0);
    let good = named("half");
    workspace.write("half.yaml", HALF);
    workspace.proofmill(&["run", "half.yaml"]).expect(1);
    let shown = workspace.proofmill(&["show"]).expect(0);
    let shown = shown.says("the last one that did");
    assert!(shown.stdout.contains(good.as_str().unwrap()), "{}", shown.stdout);
    let of_chain = workspace.json(&["runs", "--pipeline", "chain"]);
    assert_eq!(of_chain.as_array().unwrap().len(), 2);
    let listed = workspace.proofmill(&["runs"]).expect(0).stdout;
    assert!(listed.contains("least=2"), "{listed}");
}

/// What a run prints at its end is pasted into a shell, where the store has a name that needs quotes.
#[test]
fn end_with_commands_that_work_as_they_stand() {
    let workspace = Workspace::with(CHAIN);
    let done = workspace.proofmill(&["run", "p.yaml", "--store", "my store"]).expect(0);
    let commands: Vec<&str> =
        done.stderr.lines().filter(|line| line.starts_with("  proofmill ")).collect();
    assert_eq!(commands.len(), 2, "{}", done.stderr);
    let program = workspace.command(&[]);
    let folder = Path::new(program.get_program()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(workspace.path("")).env("PATH", &path);
        let output = shell.env("PROOFMILL_STORE", "elsewhere").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {said}");
        assert!(!output.stdout.is_empty(), "{command}: {said}");
    }
}

#[test]
fn are_compared_by_one_query() {
    let workspace = Workspace::with(CHAIN);
    workspace.run();
    workspace.json(&["run", "p.yaml", "--param", "least=2"]);
    let query = "SELECT o.x AS old, n.x AS new FROM before.c AS o CROSS JOIN after.c AS n";
    let both = ["sql", "--run", "before=chain~1", "--run", "after=latest", query];
    assert_eq!(workspace.json(&both)[0], serde_json::json!({"old": 4, "new": 6}));
    let mixed = [
        "sql",
        "--run",
        "chain",
        "--run",
        "old=chain~1",
        "SELECT c.x - o.x AS d FROM c, old.c AS o",
    ];
    assert_eq!(workspace.json(&mixed)[0]["d"], 2);
    let refused = |args: &[&str]| {
        let args: Vec<&str> = ["sql"].iter().chain(args).copied().collect();
        workspace.proofmill(&args).expect(2)
    };
    refused(&["--run", "chain", "--run", "chain~1", query]).says("two runs have no name");
    refused(&["--run", "a=chain", "--run", "a=chain~1", query]).says("two runs are called `a`");
    refused(&["--run", "A=chain", query]).says("is not a valid name for a run");
    refused(&["--run", "a=chain", "SELECT * FROM c"]).says("does not say which run").says("`a.c`");
    refused(&["--run", "a=chain", "SELECT * FROM a.d"]).says("has no table `d`");
}

#[test]
fn are_queried_and_nothing_else() {
    let workspace = Workspace::with(CHAIN);
    workspace.proofmill(&["sql", "SELECT x FROM a"]).expect(2).says("the store has no run");
    workspace.run();
    assert_eq!(workspace.sql("SELECT c.x + other.x AS x FROM c, other")[0]["x"], 9);
    // A column may be called as the tag that other commands give their rows.
    assert_eq!(workspace.sql("SELECT stage FROM a")[0]["stage"], "one");
    assert!(workspace.sql("SELECT now() AS t")[0]["t"].is_string());
    let outside = workspace.path("secret.csv");
    workspace.write("secret.csv", "x\n1\n");
    let before = workspace.keys("");
    for query in [
        "COPY a TO 'out.csv'".to_owned(),
        "CREATE TABLE t AS SELECT 1".to_owned(),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'", outside.display()),
        "SET datafusion.execution.batch_size = 1".to_owned(),
        "INSERT INTO a VALUES (2)".to_owned(),
        "DROP TABLE a".to_owned(),
        "SELECT 1 AS x INTO t".to_owned(),
        "EXPLAIN SELECT 1".to_owned(),
        "SHOW TABLES".to_owned(),
        "SELECT 1; SELECT 2".to_owned(),
        format!("SELECT * FROM '{}'", outside.display()),
        format!("SELECT * FROM \"{}\"", outside.display()),
        format!("SELECT * FROM read_csv('{}')", outside.display()),
        "SELECT * FROM information_schema.tables".to_owned(),
        "SELECT".to_owned(),
        String::new(),
    ] {
        let done = workspace.proofmill(&["sql", &query]).expect(2);
        assert_eq!(done.stdout, "", "{query}");
    }
    assert_eq!(workspace.keys(""), before);
    assert!(!workspace.path("out.csv").exists());
    workspace.proofmill(&["sql", "SELECT x FROM scor"]).expect(2).says("did you mean `score`?");
    workspace.proofmill(&["sql", "SELECT z FROM c"]).expect(2).says("there is no column `z`");
}

#[test]
fn are_made_of_what_is_selected() {
    let workspace = Workspace::with(CHAIN);
    let run = |args: &[&str]| executed(&workspace.json(&[&["run", "p.yaml"], args].concat()));
    // What a selected stage needs is computed too.
    assert_eq!(run(&["--select", "b"]), set(&["a", "b"]));
    assert_eq!(run(&["--select", "+c"]), set(&["c"]));
    assert_eq!(run(&["--select", "b+"]), set(&["score"]));
    assert_eq!(run(&[]), set(&["other"]));
    // Run again what is stored: the table is the same, so nothing below it runs.
    assert_eq!(run(&["--rerun", "b"]), set(&["b"]));
    assert_eq!(run(&["--rerun", "b+"]), set(&["b", "c", "score"]));
    assert_eq!(run(&["--rerun", "+b,other"]), set(&["a", "b", "other"]));
    assert_eq!(run(&["--select", "a", "--rerun", "a+"]), set(&["a"]));
    assert_eq!(run(&[]), set(&[]));
    workspace
        .proofmill(&["run", "p.yaml", "--select", "d"])
        .expect(2)
        .says("there is no stage `d`");
    workspace
        .proofmill(&["run", "p.yaml", "--rerun", "scor"])
        .expect(2)
        .says("did you mean `score`?");

    let plan = workspace.json(&["plan", "p.yaml", "--select", "b", "--param", "least=9"]);
    let actions: Vec<_> =
        plan.as_array().unwrap().iter().map(|s| s["action"].as_str().unwrap()).collect();
    let names: Vec<_> =
        plan.as_array().unwrap().iter().map(|s| s["stage"].as_str().unwrap()).collect();
    for (name, action) in names.iter().zip(actions) {
        let wanted = match *name {
            "a" => "cached",
            "b" => "run",
            _ => "skip",
        };
        assert_eq!(action, wanted, "{name}");
    }
}

#[test]
fn go_on_beside_a_stage_that_fails() {
    let workspace = Workspace::with(HALF);
    let done = workspace.proofmill(&["run", "p.yaml", "--json"]).expect(1).says("stage `bad`");
    let run = done.json();
    assert_eq!(run["outcome"], "failed");
    assert!(run["error"].as_str().unwrap().contains("bad"), "{run}");
    assert_eq!(executed(&run), set(&["a", "fine", "finer"]));
    assert_eq!(with_status(&run, "failed"), set(&["bad"]));
    assert!(workspace.keys("manifest.json").is_empty(), "a failed run is not published");
    let name = run["run"].as_str().unwrap();
    assert_eq!(workspace.json(&["sql", "SELECT x FROM finer", "--run", name])[0]["x"], 2);
    workspace.proofmill(&["sql", "SELECT y FROM bad", "--run", name]).expect(2);
    // What failed, why, and what was not reached.
    let shown = workspace.json(&["show", "--run", name]);
    assert_eq!(
        (&shown["failed"][0]["stage"], &shown["not_run"]),
        (&Json::from("bad"), &Json::from(1))
    );
    let shown = workspace.proofmill(&["show", "--run", name]).expect(0).stdout;
    assert!(shown.contains("bad failed: ") && shown.contains("1 stage did not run"), "{shown}");
    workspace
        .proofmill(&["show", "bad", "--run", name])
        .expect(1)
        .says("failed in run")
        .says("zero");

    workspace.edit("p.yaml", "1 / x AS y", "1 / (x + 1) AS y");
    assert_eq!(workspace.run(), set(&["bad", "below"]), "only the rest");
    assert_eq!(workspace.run(), set(&[]));
}

#[test]
fn end_with_a_code_that_tells_who_must_act() {
    let workspace = Workspace::with(CHAIN);
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    workspace.write("half.yaml", HALF);
    workspace.proofmill(&["run", "half.yaml"]).expect(1);
    workspace.proofmill(&["run", "missing.yaml"]).expect(2);
    workspace.proofmill(&["run", "p.yaml", "--no-such-flag"]).expect(2);
    workspace.proofmill(&["run", "p.yaml", "--store", "ftp://x"]).expect(2);
    workspace
        .write("wrong.yaml", CHAIN.replace("SELECT 5", "SELEC 5").replace("from: c", "from: d"));
    let wrong = workspace.proofmill(&["run", "wrong.yaml", "--json"]).expect(3);
    assert_eq!(wrong.json().as_array().unwrap().len(), 2, "both mistakes at once");
    workspace.proofmill(&["run", "p.yaml", "--param", "least=x"]).expect(3);
    workspace.proofmill(&["run", "p.yaml", "--param", "most=1"]).expect(3);
    let slow = "pipeline: slow\nstages:\n  a:\n    sql: SELECT sum(x.value * y.value) AS s FROM \
        generate_series(1, 30000) AS x, generate_series(1, 30000) AS y\n    timeout: 300ms\n";
    workspace.write("slow.yaml", slow);
    workspace.proofmill(&["run", "slow.yaml"]).expect(5).says("longer than its timeout");
    // A file where the store should be.
    workspace.write("file", "");
    workspace.proofmill(&["run", "p.yaml", "--store", "file"]).expect(4);
}

#[test]
fn may_live_in_memory_only() {
    let workspace = Workspace::with(CHAIN);
    let run = workspace.json(&["run", "p.yaml", "--store", "memory://"]);
    assert_eq!((executed(&run).len(), &run["metrics"][0]["value"]), (5, &Json::from(4.0)));
    assert!(!workspace.path("store").exists());
}

#[test]
fn print_data_to_one_stream_and_everything_else_to_the_other() {
    let workspace = Workspace::with(CHAIN);
    let run = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let lines: Vec<_> = run.stdout.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines[0].starts_with("score") && lines.len() == 4, "only the numbers: {}", run.stdout);
    assert!(run.stderr.contains("done c: 1 row") && run.stderr.contains("5 stages computed"));
    let again = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(again.stdout, run.stdout, "stored numbers are printed as fresh ones are");
    for args in [
        &["runs"][..],
        &["show"],
        &["show", "c"],
        &["sql", "SELECT x FROM c"],
        &["why", "p.yaml", "c"],
        &["plan", "p.yaml"],
        &["check", "p.yaml"],
        &["run", "p.yaml"],
    ] {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        workspace.proofmill(&args).expect(0).json();
    }
    let failed = workspace.proofmill(&["sql", "SELECT x FROM nothing"]).expect(2);
    assert_eq!(failed.stdout, "");
}

#[test]
fn are_coloured_only_for_people() {
    let workspace = Workspace::with(&CHAIN.replace("SELECT 5", "SELEC 5"));
    let escape = '\u{1b}';
    let plain = workspace.proofmill(&["check", "p.yaml"]).expect(3);
    assert!(!plain.stderr.contains(escape) && !plain.stdout.contains(escape));
    let output = workspace.command(&["check", "p.yaml"]).env("NO_COLOR", "1").output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains(escape));
    let always = workspace.proofmill(&["check", "p.yaml", "--color", "always"]).expect(3);
    assert!(always.stderr.contains(escape) && !always.stdout.contains(escape));
    let json = workspace.proofmill(&["check", "p.yaml", "--color", "always", "--json"]).expect(3);
    assert!(!json.stdout.contains(escape));
}

#[test]
fn what_changed_can_be_selected() {
    let workspace = Workspace::with(CHAIN);
    let actions = |select: &str| {
        let plan = workspace.json(&["plan", "p.yaml", "--select", select]);
        let run = plan.as_array().unwrap().iter().filter(|stage| stage["action"] == "run");
        run.map(|stage| stage["stage"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(actions("changed"), ["a", "b", "c", "other", "score"], "all are new");
    workspace.run();
    assert_eq!(actions("changed"), [""; 0]);
    workspace.edit("p.yaml", "SELECT x * 2 AS x FROM b", "SELECT x * 3 AS x FROM b");
    workspace.edit("p.yaml", "SELECT 5 AS x", "SELECT 6 AS x");
    assert_eq!(actions("changed"), ["c", "other"]);
    assert_eq!(actions("changed+"), ["c", "other", "score"]);
    assert_eq!(actions("c,changed"), ["c", "other"]);
    let done = workspace.json(&["run", "p.yaml", "--select", "changed"]);
    assert_eq!(executed(&done), set(&["other", "c"]));
    workspace
        .proofmill(&["plan", "p.yaml", "--select", "changd"])
        .expect(2)
        .says("no stage `changd`");
}
