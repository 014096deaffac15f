//! Nothing from outside is printed raw: a canary that controls terminals goes in wherever a file, a
//! model, an endpoint, a store, an argument or the environment says something, and must come out as
//! something to look at.

use std::fs;

use proofmill_base::digest::Digest;
use serde_json::{Value as Json, json};

use crate::server::serve;
use crate::support::{Done, Workspace, forge};

/// Sets the title, turns the direction, overwrites the line, colours (one byte, C1), hides, ends the
/// line where JSON does not, clears the screen.
const CANARY: &str = "\u{1b}]0;PWNED\u{7}\u{202e}\rX\u{9b}31m\u{200b}\u{2028}\u{1b}[2J";
/// The same for what may hold no control characters: names of columns, files of YAML, lessons.
const TURNED: &str = "\u{202e}PWNED\u{200b}\u{2028}\u{2066}";

/// True for what must not reach a terminal. Not the program's own list: what a reader would write.
fn is_raw(c: char) -> bool {
    let bidi = ['\u{61c}', '\u{200e}', '\u{200f}'].contains(&c)
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c);
    let hidden = ['\u{200b}', '\u{2028}', '\u{2029}', '\u{feff}'].contains(&c);
    (c.is_control() && c != '\n' && c != '\t') || bidi || hidden
}

/// Checks that nothing raw was printed.
#[track_caller]
fn clean(done: Done) -> Done {
    for (stream, text) in [("standard output", &done.stdout), ("standard error", &done.stderr)] {
        let raw = text.char_indices().find(|(_, c)| is_raw(*c));
        assert!(raw.is_none(), "{raw:?} on {stream}:\n{}", text.escape_debug());
    }
    done
}

/// Runs a command that must print the canary, and not raw; also with `--json`.
#[track_caller]
fn shows(workspace: &Workspace, args: &[&str]) -> Done {
    clean(workspace.proofmill(&[args, &["--json"]].concat()));
    let done = clean(workspace.proofmill(args));
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(said.contains("PWNED"), "{args:?} does not show it:\n{said}");
    done
}

/// The text as YAML and as JSON.
fn quoted(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap();
    let escape = |c: char| match is_raw(c) || c == '\u{ffff}' {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    json.chars().map(escape).collect()
}

#[test]
fn tables_of_a_hostile_file_are_shown_and_their_json_is_the_same() {
    let workspace = Workspace::with(
        "pipeline: p\nstages:\n  rows: { read: { path: rows.jsonl } }\n  page: { report: { title: \
         Page, path: out, blocks: [{ table: { from: rows } }] } }\n",
    );
    let row = json!({ (format!("n{TURNED}")): CANARY, "s": { (TURNED): [CANARY] } });
    workspace.write("rows.jsonl", format!("{row}\n"));
    clean(workspace.proofmill(&["run", "p.yaml"]).expect(0));
    for args in [
        &["show", "rows"][..],
        &["show", "page"],
        &["sql", "SELECT * FROM rows"],
        &["sql", "--full", "SELECT * FROM rows"],
        &["sql", "--format", "vertical", "SELECT * FROM rows"],
        &["run", "p.yaml"],
    ] {
        shows(&workspace, args).expect(0);
    }
    let alias = format!("SELECT 1 AS \"a{CANARY}\", '{CANARY}' AS b");
    shows(&workspace, &["sql", &alias]).expect(0);
    let mut read = workspace.sql("SELECT * FROM rows").remove(0);
    read.as_object_mut().unwrap().remove("row_id");
    assert_eq!(read, row);
    let page = workspace.read("out/report.md");
    assert!(page.contains("PWNED") && !page.contains(is_raw), "{}", page.escape_debug());
}

#[test]
fn pictures_hold_texts_and_no_markup_of_the_data() {
    let name = format!("{CANARY}</text><script>alert(1)</script>\u{ffff}");
    let workspace = Workspace::with(&format!(
        "pipeline: p\nstages:\n  rows: {{ read: {{ path: rows.jsonl }} }}\n  page: {{ report: {{ \
         path: out, blocks: [{{ plot: {{ from: rows, title: {0}, x: x, y: y, by: who, x_label: {0} \
         }} }}] }} }}\n",
        quoted(&name)
    ));
    let row = |who: &str, x: i32| format!("{}\n", json!({ "who": who, "x": x, "y": 1 }));
    workspace.write("rows.jsonl", row(&name, 1) + &row("<b>&", 2));
    shows(&workspace, &["run", "p.yaml"]).expect(0);
    for file in ["out/rows.svg", "out/report.md"] {
        let text = workspace.read(file);
        assert!(text.contains("PWNED") && !text.contains(is_raw), "{}", text.escape_debug());
        assert!(!text.contains('\u{ffff}'), "{}", text.escape_debug());
        assert!(!text.replace("\\<", "").contains("<script") && !text.contains("<b>"), "{text}");
    }
}

#[test]
fn errors_quote_what_is_wrong_with_data() {
    // A name of a file may hold anything but a slash.
    let file = format!("rows{CANARY}.jsonl");
    let workspace = Workspace::with(&format!(
        "pipeline: p\nstages:\n  rows: {{ read: {{ path: {} }} }}\n  n: {{ sql: \"SELECT \
         CAST(text AS INT) AS n FROM rows\" }}\n",
        quoted(&file)
    ));
    shows(&workspace, &["check", "p.yaml"]).expect(3).says("p.yaml:3:");
    workspace.write(&file, format!("{}\n", json!({ "text": CANARY })));
    shows(&workspace, &["run", "p.yaml"]).expect(1).says("error: ");
    for line in ["{\"text\": 1, \"\u{1b}]0;PWNED\u{7}", &format!("{CANARY}\n{{")] {
        workspace.write(&file, format!("{}\n{line}\n", json!({ "text": "1" })));
        shows(&workspace, &["run", "p.yaml"]);
    }
    workspace.edit("p.yaml", "CAST(text AS INT)", "textt");
    workspace.write(&file, format!("{}\n", json!({ "text": "1", (CANARY): 2 })));
    clean(workspace.proofmill(&["check", "p.yaml"]).expect(3));
}

#[test]
fn no_line_of_a_message_looks_like_one_of_ours() {
    let workspace = Workspace::with(
        "pipeline: p\nstages:\n  rows: { read: { path: rows.jsonl } }\n  n: { sql: \"SELECT CAST(text \
         AS INT) AS n FROM rows\" }\n",
    );
    let forged = ["run succeeded after 1 ms", "done n: 1 row", "error: all is well", "help: none"];
    workspace.write(
        "rows.jsonl",
        format!("{}\n", json!({ "text": "a\n".to_owned() + &forged.join("\n") })),
    );
    let done = clean(workspace.proofmill(&["run", "p.yaml"]).expect(1)).says(forged[0]);
    let line = done.stderr.lines().find(|line| {
        forged.iter().any(|it| line.starts_with(it) || line.starts_with(&format!("  {it}")))
    });
    assert_eq!(line, None, "{}", done.stderr);
}

#[test]
fn notes_and_checks_are_shown() {
    let workspace = Workspace::with(&format!(
        "pipeline: p\nstages:\n  rows:\n    read: {{ path: rows.jsonl }}\n    checks: [{{ expect: \
         {}, severity: warn }}]\n",
        quoted(&format!("text <> 'b' OR text = '{CANARY}'"))
    ));
    // A field that comes up after the sample is passed over, and a note says so.
    let sample = format!("{}\n", json!({ "text": "b" })).repeat(10_000);
    workspace.write("rows.jsonl", format!("{sample}{}\n", json!({ "text": "b", (TURNED): 1 })));
    shows(&workspace, &["run", "p.yaml"]).expect(0);
    let shown = shows(&workspace, &["show", "rows"]).expect(0);
    assert!(shown.stdout.contains("note: "), "{}", shown.stdout);
}

#[test]
fn mistakes_in_a_pipeline_are_shown_at_their_place() {
    let raw = TURNED;
    for (text, place) in [
        // In a comment before the mistake, in keys, names, queries, templates, parameters.
        (format!("pipeline: p # {raw}\nstages:\n  a: {{ sql: SELECT 1 AS x, {raw}: 1 }}\n"), "3:"),
        (format!("pipeline: p\nstages:\n  {}: {{ sql: SELECT 1 AS x }}\n", quoted(CANARY)), "3:"),
        (
            format!(
                "pipeline: p\nstages:\n  a: {{ sql: {} }}\n",
                quoted(&format!("SELECT {CANARY}"))
            ),
            "3:",
        ),
        (
            format!("pipeline: p\nstages:\n  a: {{ sql: \"SELECT 1 AS x /* {raw} */ FROM b\" }}\n"),
            "3:",
        ),
        (
            format!(
                "pipeline: p\nstages:\n  a: {{ use: {} }}\n",
                quoted(&format!("{CANARY}.yaml"))
            ),
            "3:",
        ),
        (
            format!(
                "pipeline: p\nstages:\n  a: {{ sql: {} }}\n",
                quoted(&format!("SELECT ${{params.{CANARY}}}"))
            ),
            "3:",
        ),
        (
            format!(
                "pipeline: p\nmodels: {{ m: {{ path: {} }} }}\nstages:\n  a: {{ generate: {{ from: b, model: m, prompt: q }} }}\n  b: {{ sql: \"SELECT 'r' AS row_id, 'q' AS q\" }}\n",
                quoted(CANARY)
            ),
            "",
        ),
    ] {
        let workspace = Workspace::with(&text);
        shows(&workspace, &["check", "p.yaml"]).expect(3).says(&format!("p.yaml:{place}"));
        clean(workspace.proofmill(&["run", "p.yaml"]).expect(3));
    }
    // The mark stands below what it means, also after what is shown longer than it is.
    let workspace = Workspace::with(&format!(
        "pipeline: p # {TURNED}\nstages:\n  a: {{ sql: \"SELECT 1 AS x /* {TURNED} */\", wrong: 2 }}\n"
    ));
    let said = clean(workspace.proofmill(&["check", "p.yaml"])).stderr;
    let lines: Vec<&str> = said.lines().collect();
    let marked = lines.windows(2).find(|pair| {
        let at = pair[0].find("wrong");
        at.is_some_and(|at| pair[1].get(at..).is_some_and(|below| below.starts_with("^^^^^")))
    });
    assert!(marked.is_some(), "{said}");
    for yaml in ["\u{1b}]0;PWNED\u{7}", "a: \u{7f}PWNED", "pipeline: [\u{1b}PWNED"] {
        let workspace = Workspace::with(yaml);
        clean(workspace.proofmill(&["check", "p.yaml"]));
    }
}

#[test]
fn names_of_templates_and_pipelines_are_shown() {
    let workspace = Workspace::new();
    let (pipeline, template) = (format!("p{CANARY}.yaml"), format!("t{CANARY}.yaml"));
    workspace
        .write(&pipeline, format!("pipeline: p\nstages:\n  a: {{ use: {} }}\n", quoted(&template)));
    workspace.write(&template, "stages:\n  b: { sql: SELECT 1 AS x, wrong: 1 }\n");
    shows(&workspace, &["check", &pipeline]).expect(3);
    workspace.write(&pipeline, "pipeline: p\nstages: { b: { sql: SELECT 1 AS x } }\ntests: []\n");
    clean(workspace.proofmill(&["run", &pipeline]));
    clean(workspace.proofmill(&["test", &pipeline]));
    clean(workspace.proofmill(&["show"]));
    shows(&workspace, &["run", &format!("{CANARY}.yaml")]).expect(2);
}

#[test]
fn arguments_and_the_environment_are_shown() {
    let workspace = Workspace::with(
        "pipeline: p\nparams: { x: 1 }\nstages: { a: { sql: \"SELECT ${params.x} AS x\" } }\n",
    );
    workspace.run();
    let (param, select) = (format!("{CANARY}=1"), format!("{CANARY}+"));
    let query = format!("SELECT {CANARY} FROM a");
    let table = format!("SELECT * FROM \"{CANARY}\"");
    for args in [
        &["show", CANARY][..],
        &["show", "--run", CANARY],
        &["sql", &query],
        &["sql", &table],
        &["why", "p.yaml", CANARY],
        &["run", "p.yaml", "--param", &param],
        &["run", "p.yaml", "--select", &select],
        &["run", "p.yaml", "--resume", CANARY],
        &["plan", "p.yaml", "--select", &select],
        &["teach", "import", "science", CANARY],
        &["--store", "s3:PWNED\u{1b}[2J", "runs"],
        &["explain", CANARY],
        &["sql", "SELECT 1", "--models", CANARY],
    ] {
        let done = shows(&workspace, args);
        assert_ne!(done.code, Some(0), "{args:?}");
    }
    // What the parser of the arguments refuses.
    let option = format!("--PWNED{CANARY}");
    for args in [
        &["PWNED\u{1b}[31m\u{202e}\r\u{9b}"][..],
        &["teach", "add", CANARY, "A fact."],
        &["teach", "add", "science", "PWNED\u{202e}\u{1}"],
        &["runs", &option],
        &["runs", "--color", "PWNED\u{1b}[8m\u{202e}"],
        &["runs", "--jobs", "PWNED\u{9b}\u{202e}"],
    ] {
        clean(workspace.proofmill(args).expect(2));
    }
    for (name, value) in [("PROOFMILL_STORE", CANARY), ("USER", CANARY)] {
        for args in [
            &["--help"][..],
            &["teach", "add", "--help"],
            &["teach", "add", "science", "A penny is made of copper."],
            &["teach", "list", "science"],
            &["teach", "history", "science"],
            &["runs"],
            &["run", "p.yaml"],
        ] {
            let output = workspace.command(args).env(name, value).output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            clean(Done { code: output.status.code(), stdout, stderr });
        }
    }
}

#[test]
fn help_never_prints_the_environment() {
    let workspace = Workspace::new();
    let mut command = workspace.command(&["--help"]);
    let output = command.env("PROOFMILL_STORE", "s3://key:secret@bucket").output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));
}

#[test]
fn lessons_are_shown() {
    let workspace = Workspace::new();
    let turned = "A penny\u{202e} is made\u{200b} of copper PWNED.";
    let teach = |args: &[&str]| workspace.proofmill(&[&["teach"], args].concat());
    clean(
        teach(&[
            "add", "science", turned, "--author", CANARY, "--reason", CANARY, "--proof", CANARY,
        ])
        .expect(0),
    );
    for args in [&["list", "science"][..], &["list", "science", "--full"], &["history", "science"]]
    {
        shows(&workspace, &[&["teach"], args].concat()).expect(0);
    }
    let nearly = "A penny\u{202e} is made\u{200b} of copper PWNEDD.";
    let steer = ["teach", "exclude", "science", nearly, "--question", "Is it\u{202e}?"];
    shows(&workspace, &steer).expect(0);
    clean(teach(&["negate", "science", turned]).expect(0));
    clean(teach(&["conflicts", "science"]));
    workspace.write("l.jsonl", format!("{}\n", json!({ "fact": CANARY, "action": CANARY })));
    clean(teach(&["import", "science", "l.jsonl"]));
}

#[test]
fn what_a_model_behind_an_endpoint_says_is_shown() {
    fn reply(place: usize, _: &Json) -> (&'static str, Json) {
        match place {
            1 => ("400 Bad", json!({ "error": { "message": CANARY, "type": CANARY } })),
            _ => {
                let choice = json!({ "index": 0, "text": CANARY, "finish_reason": "stop" });
                ("200 OK", json!({ "choices": [choice], "model": CANARY }))
            }
        }
    }
    let (url, _) = serve(reply);
    let workspace = Workspace::with(&format!(
        "pipeline: far\nmodels:\n  far: {{ url: \"{url}\", model: small, retries: 0 }}\nstages:\n  \
         asked: {{ sql: \"SELECT 'r' AS row_id, 'cat' AS q\" }}\n  answers: {{ generate: {{ from: \
         asked, model: far, prompt: q }} }}\n"
    ));
    let refused = clean(workspace.proofmill(&["run", "p.yaml"]).expect(1));
    assert!(refused.stderr.contains("PWNED"), "{}", refused.stderr);
    clean(workspace.proofmill(&["run", "p.yaml"]).expect(0));
    shows(&workspace, &["sql", "SELECT text FROM answers"]).expect(0);
    shows(&workspace, &["show", "answers"]).expect(0);
}

#[test]
fn records_of_a_store_are_shown() {
    let workspace = Workspace::with("pipeline: p\nstages: { a: { sql: SELECT 1 AS x } }\n");
    workspace.run();
    let path = workspace.record("a");
    let digest = || Digest::of(&fs::read(&path).unwrap()).to_string();
    let named = digest();
    forge(&path, "\"notes\":[]", &format!("\"notes\":[{}]", quoted(&format!("{CANARY}\nforged"))));
    let components = format!("\"components\":{{{}:{},", quoted(CANARY), quoted(CANARY));
    forge(&path, "\"components\":{", &components);
    // A run reads the record that its manifest names: whoever forges one forges the other.
    let manifest = workspace.path("store").join(&workspace.keys("manifest.json")[0]);
    forge(&manifest, &named, &digest());
    let done = shows(&workspace, &["show", "a"]);
    assert!(!done.stdout.lines().any(|line| line == "forged"), "{}", done.stdout);
    for args in [&["why", "p.yaml", "a"][..], &["plan", "p.yaml"], &["run", "p.yaml"], &["runs"]] {
        clean(workspace.proofmill(args));
    }
    workspace.edit("p.yaml", "SELECT 1", "SELECT 2");
    clean(workspace.proofmill(&["why", "p.yaml", "a"]));
    let manifest = workspace.path("store").join(&workspace.keys("manifest.json")[1]);
    forge(&manifest, "\"kind\":\"sql\"", &format!("\"kind\":{}", quoted(CANARY)));
    shows(&workspace, &["show"]);
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"v\":2", &format!("\"v\":{}", quoted(CANARY)))).unwrap();
    clean(workspace.proofmill(&["runs"]));
    fs::write(&manifest, format!("{CANARY}{text}")).unwrap();
    clean(workspace.proofmill(&["runs"]));
    fs::write(&path, text.replace("\"kind\"", &quoted(CANARY))).unwrap();
    clean(workspace.proofmill(&["run", "p.yaml"]));
}

#[test]
fn colours_are_only_ours() {
    let workspace =
        Workspace::with("pipeline: p\nstages: { a: { sql: SELECT 1 AS x, wrong: 1 } }\n");
    let missing = format!("\u{1b}[7mPWNED{CANARY}.yaml");
    for args in [&["check", "p.yaml"][..], &["check", &missing], &["show", "--run", &missing]] {
        let done = workspace.proofmill(&[&["--color", "always"], args].concat());
        let mut rest = done.stderr.as_str();
        let (mut plain, mut colours) = (String::new(), 0);
        while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
            plain.push_str(before);
            let (code, after) = sequence.split_once('m').unwrap();
            assert!(code.chars().all(|c| c.is_ascii_digit() || c == ';') && code != "7", "{code}");
            (rest, colours) = (after, colours + 1);
        }
        plain.push_str(rest);
        assert!(colours > 0 && !plain.contains(is_raw), "{}", done.stderr.escape_debug());
    }
}
