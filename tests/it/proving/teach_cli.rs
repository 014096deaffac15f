//! `proofmill teach` and the kind `memory`: what users teach changes what pipelines answer, and what
//! they undo brings the old tables back.

use serde_json::{Value as Json, json};

use crate::oracle;
use crate::support::{Done, Workspace, set};

const PIPELINE: &str = "\
pipeline: p
stages:
  known: { memory: { name: science } }
  facts: { sql: \"SELECT fact FROM known WHERE kind = 'fact'\" }
  number: { sql: SELECT count(*) AS n FROM facts }
  other: { sql: SELECT 1 AS one }
";
const COPPER: &str = "A penny is made of copper.";
const PENNY: &str = "Can a magnet attract a penny?";

fn teach(workspace: &Workspace, args: &[&str]) -> Done {
    workspace.proofmill(&[&["teach"], args].concat())
}

/// Teaches, which must succeed, for what programs are told.
#[track_caller]
fn told(workspace: &Workspace, args: &[&str]) -> Json {
    workspace.json(&[&["teach"], args].concat())
}

/// What the memory `science` holds: kinds and texts.
#[track_caller]
fn held(workspace: &Workspace) -> Vec<(String, String)> {
    let text = |row: &Json, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = told(workspace, &["list", "science"]);
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| (text(row, "kind"), text(row, "fact"))).collect()
}

fn fact(text: &str) -> (String, String) {
    ("fact".to_owned(), text.to_owned())
}

#[test]
fn a_run_reads_what_was_taught_and_computes_what_depends_on_it() {
    let workspace = Workspace::with(PIPELINE);
    let first = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    first.says("warning[E0404]").says("p.yaml:3:28").says("memory `science` has no entries");
    assert_eq!(workspace.sql("SELECT n FROM number")[0]["n"], 0);

    let below = set(&["known", "facts", "number"]);
    told(
        &workspace,
        &["add", "science", COPPER, "--author", "ada", "--reason", "it is", "--proof", "q#0/free"],
    );
    let why = workspace.json(&["why", "p.yaml", "known"]);
    let changes: Vec<&Json> =
        why["changes"].as_array().unwrap().iter().map(|change| &change["component"]).collect();
    assert_eq!(changes, ["memory.sha256"]);
    assert_eq!(workspace.run(), below);
    assert_eq!(workspace.run(), set(&[]));
    let rows = workspace.sql(
        "SELECT fact, kind, source, author, reason, proof_id, entry, premises, fact_id IS NULL AS none FROM known",
    );
    let expected = json!({
        "fact": COPPER, "kind": "fact", "source": "added", "author": "ada", "reason": "it is",
        "proof_id": "q#0/free", "entry": 1, "premises": null, "none": false,
    });
    assert_eq!(rows, [expected]);

    // What is known already changes nothing; what is undone was computed before.
    teach(&workspace, &["add", "science", "a PENNY is made  of copper"]).expect(0).says("entry 1");
    assert_eq!(workspace.run(), set(&[]));
    told(&workspace, &["add", "science", "Iron rusts."]);
    assert_eq!(workspace.run(), below);
    assert_eq!(workspace.sql("SELECT n FROM number")[0]["n"], 2);
    told(&workspace, &["undo", "science", "2"]);
    assert_eq!(workspace.run(), set(&[]), "the table with one fact is in the store");
    assert_eq!(workspace.sql("SELECT n FROM number")[0]["n"], 1);
    told(&workspace, &["undo", "science", "3"]);
    assert_eq!(workspace.run(), set(&[]), "and so is the one with two");
    told(&workspace, &["undo", "science", "1", "4"]);
    assert_eq!(workspace.run(), set(&[]), "and the empty one");
}

#[test]
fn what_a_memory_is_called_does_not_count_and_how_far_it_is_read_does() {
    let workspace = Workspace::with(PIPELINE);
    for (memory, text) in
        [("science", COPPER), ("science", "Iron rusts."), ("history", "Rome fell.")]
    {
        told(&workspace, &["add", memory, text, "--author", "ada"]);
    }
    workspace.run();
    let below = set(&["known", "facts", "number"]);
    workspace.edit("p.yaml", "{ name: science }", "{ name: science, until: 2 }");
    assert_eq!(workspace.run(), set(&[]), "all entries are those up to the last");
    workspace.edit("p.yaml", "until: 2", "until: 1");
    assert_eq!(workspace.run(), below);
    told(&workspace, &["add", "science", "Tin shines."]);
    assert_eq!(workspace.run(), set(&[]), "later entries are not read");
    workspace.edit("p.yaml", "name: science, until: 1", "name: history");
    assert_eq!(workspace.run(), below);
    assert_eq!(workspace.sql("SELECT fact FROM known")[0]["fact"], "Rome fell.");
}

#[test]
fn mistakes_of_a_memory_stage_are_named_with_their_place() {
    let workspace = Workspace::with(PIPELINE);
    told(&workspace, &["add", "science", COPPER]);
    workspace.edit("p.yaml", "name: science", "name: scence");
    let run = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    run.says("E0404").says("p.yaml:3:28").says("did you mean `science`?");
    let json = workspace.proofmill(&["run", "p.yaml", "--json"]).expect(0).says("E0404");
    json.json();
    workspace.proofmill(&["check", "p.yaml"]).expect(0).says("no errors");
    workspace.edit("p.yaml", "name: scence", "name: science, until: 2");
    let run = workspace.proofmill(&["run", "p.yaml"]).expect(3);
    run.says("E0105").says("p.yaml:3:44").says("no entry 2: it has 1");
    workspace.edit("p.yaml", "name: science, until: 2", "name: Science");
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("E0107").says("name of a memory");
}

#[test]
fn three_turns_of_a_user_settle_the_penny() {
    let (url, received) = oracle::start();
    let workspace = Workspace::of_case("proofs");
    workspace.write("p.yaml", workspace.read("taught.yaml"));
    let url = format!("url={url}");
    let answer = || {
        workspace.proofmill(&["run", "p.yaml", "--param", &url]).expect(0);
        let columns = "answer, status, score, proof_id, confirmed";
        workspace.sql(&format!("SELECT {columns} FROM answers")).remove(0)
    };
    let first = answer();
    assert_eq!((&first["answer"], &first["status"]), (&json!("yes"), &json!("proved")));

    // Fact is missing: still wrong, for another reason.
    told(&workspace, &["add", "science", COPPER, "--question", PENNY]);
    let second = answer();
    assert_eq!(second["answer"], "yes");
    let premises = workspace.sql(
        "SELECT premises[2]['text'] AS second FROM verified JOIN answers ON verified.proof_id = answers.proof_id",
    );
    assert_eq!(premises[0]["second"], "A magnet can attract copper.");

    // Fact is false: right.
    let wrong = second["proof_id"].as_str().unwrap();
    told(&workspace, &["negate", "science", "A magnet can attract copper.", "--proof", wrong]);
    assert_eq!(held(&workspace)[1], fact("A magnet cannot attract copper."));
    let third = answer();
    assert_eq!((&third["answer"], &third["status"]), (&json!("no"), &json!("proved")));
    // What the model still thinks of magnets is not asked about any more, and the trace says why.
    let rejected = workspace.sql(
        "SELECT reject_reason FROM verified WHERE premises[2]['text'] = 'A magnet can attract copper.'",
    );
    assert!(!rejected.is_empty());
    let because = |row: &Json| row["reject_reason"] == "premise_contradicted";
    assert!(rejected.iter().all(because), "{rejected:?}");
    let trace = workspace.proofmill(&["audit", "trace", "penny"]).expect(0).stdout;
    for says in ["rejected, premise_contradicted", "contradicts: A magnet cannot attract copper."] {
        assert!(trace.contains(says), "{trace}");
    }

    // The answer is right: it stays, even if the memory forgets the facts.
    let right = third["proof_id"].as_str().unwrap();
    let confirmed = told(&workspace, &["confirm", "science", "--proof", right]);
    assert_eq!(confirmed["action"]["confirm"]["question"], PENNY);
    assert_eq!(confirmed["action"]["confirm"]["answer"], "no");
    assert_eq!(confirmed["action"]["confirm"]["premises"].as_array().unwrap().len(), 2);
    let run = told(&workspace, &["history", "science"])[2]["run"].clone();
    assert_eq!(run.as_str().map(str::len), Some(25), "the run of the proof is kept: {run}");
    let fourth = answer();
    assert_eq!((&fourth["answer"], &fourth["status"]), (&json!("no"), &json!("confirmed")));
    assert_eq!((&fourth["proof_id"], &fourth["score"]), (&third["proof_id"], &third["score"]));
    told(&workspace, &["undo", "science", "1", "2"]);
    let fifth = answer();
    assert_eq!((&fifth["answer"], &fifth["status"]), (&json!("no"), &json!("confirmed")));

    // Without the confirmation the old answer is back, and nobody is asked again.
    told(&workspace, &["undo", "science", "3"]);
    let asked = received.lock().unwrap().len();
    assert_eq!(answer(), first);
    assert_eq!(received.lock().unwrap().len(), asked);
}

#[test]
fn bad_reasoning_is_blocked_by_the_name_of_its_proof() {
    let (url, _received) = oracle::start();
    let workspace = Workspace::of_case("proofs");
    workspace.write("p.yaml", workspace.read("taught.yaml"));
    let run = ["run", "p.yaml", "--param", &format!("url={url}")];
    workspace.proofmill(&run).expect(0);
    let block = ["block", "science", "--proof", "penny#0/free", "--reason", "metals differ"];
    let blocked = told(&workspace, &block);
    assert_eq!(blocked["action"]["block"]["hypothesis"], "a magnet can attract a penny");
    workspace.proofmill(&run).expect(0);
    let rejected =
        workspace.sql("SELECT reject_reason FROM verified WHERE proof_id = 'penny#0/free'");
    assert_eq!(rejected[0]["reject_reason"], "blocked");
    assert_eq!(workspace.sql("SELECT status FROM answers")[0]["status"], "fallback_direct");
    // The same premises in another order are known.
    let again = [
        "block",
        "science",
        "--hypothesis",
        "A magnet can attract a penny.",
        "--premise",
        "a magnet can attract magnetic metal",
        "--premise",
        "A penny is made of magnetic metal",
    ];
    teach(&workspace, &again).expect(0).says("nothing new: entry 1");

    teach(&workspace, &["block", "science", "--proof", "penny#7/free"])
        .expect(2)
        .says("has no proof `penny#7/free`");
    let stage = ["block", "science", "--proof", "penny#0/free", "--stage", "verifed"];
    teach(&workspace, &stage).expect(2).says("did you mean `verified`?");
    teach(&workspace, &["block", "science"]).expect(2).says("--hypothesis");
    teach(&workspace, &["block", "science", "--hypothesis", "H", "--premise", "."])
        .expect(2)
        .says("is empty");
}

#[test]
fn a_user_steers_what_is_recalled() {
    let (url, _received) = oracle::start();
    let workspace = Workspace::of_case("proofs");
    workspace.write("p.yaml", workspace.read("taught.yaml"));
    let recall = |n: u32| {
        let (url, recall) = (format!("url={url}"), format!("recall={n}"));
        let run = ["run", "p.yaml", "--param", &url, "--param", &recall, "--select", "+recalled"];
        workspace.proofmill(&run).expect(0);
        let rows = workspace.sql("SELECT fact FROM recalled ORDER BY rank");
        rows.iter().map(|row| row["fact"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for fact in
        ["A magnet can attract a penny or a nail.", "A magnet is made of iron.", "Rome fell."]
    {
        told(&workspace, &["add", "science", fact]);
    }
    assert_eq!(recall(5), ["A magnet can attract a penny or a nail.", "A magnet is made of iron."]);
    told(&workspace, &["exclude", "science", "a magnet is made of iron", "--question", PENNY]);
    assert_eq!(recall(5).len(), 1);
    told(
        &workspace,
        &["force", "science", "rome fell", "--question", "can a magnet attract a penny?"],
    );
    assert_eq!(recall(1), ["Rome fell."]);
    let unknown = ["force", "science", "Rome fel.", "--question", PENNY];
    teach(&workspace, &unknown).expect(2).says("did you mean \"Rome fell.\"");
    let unknown = ["exclude", "science", "Nero sang.", "--question", PENNY];
    teach(&workspace, &unknown).expect(0).says("does not hold this fact");
}

#[test]
fn conflicts_are_shown_listed_and_refused() {
    let workspace = Workspace::new();
    told(&workspace, &["add", "science", "A magnet can attract copper."]);
    let denial = ["add", "science", "a magnet cannot attract copper"];
    let refused = teach(&workspace, &[&denial[..], &["--refuse-conflicts"]].concat()).expect(2);
    refused.says("conflicts with").says("entry 1");
    assert_eq!(held(&workspace).len(), 1);
    let shown = teach(&workspace, &denial).expect(0);
    assert_eq!(shown.stdout, "entry 2 of `science`: add a magnet cannot attract copper\n");
    shown.says("conflict: ").says("entry 1, \"A magnet can attract copper.\"");
    told(&workspace, &["add", "science", COPPER]);
    let possible = told(&workspace, &["add", "science", "a penny is made of iron"]);
    assert_eq!(possible["conflicts"][0]["what"], "possible conflict");
    assert_eq!(possible["conflicts"][0]["with_entry"], 3);
    let all = told(&workspace, &["conflicts", "science"]);
    assert_eq!(all.as_array().unwrap().len(), 2, "{all:#}");
    let table = teach(&workspace, &["conflicts", "science"]).expect(0).stdout;
    assert!(table.contains("possible conflict"), "{table}");
    teach(&workspace, &["list", "science"]).expect(0).says("2 conflicts");
    told(&workspace, &["undo", "science", "2", "4"]);
    told(&workspace, &["add", "science", "A tuna is a mammal."]);
    let kind = told(&workspace, &["add", "science", "a tuna is not a kind of mammal."]);
    assert_eq!(
        (&kind["conflicts"][0]["what"], &kind["conflicts"][0]["with_entry"]),
        (&json!("conflict"), &json!(7))
    );
    let all = told(&workspace, &["conflicts", "science"]);
    assert_eq!(all.as_array().unwrap().len(), 1, "{all:#}");
    told(&workspace, &["undo", "science", "8"]);
    teach(&workspace, &["conflicts", "science"]).expect(0).says("no facts of `science` conflict");
}

#[test]
fn negations_are_made_by_rule_or_said() {
    let workspace = Workspace::new();
    told(&workspace, &["add", "science", "Copper rusts.", "--true"]);
    let negated = told(&workspace, &["negate", "science", "copper rusts"]);
    assert_eq!(negated["action"]["negate"]["negation"], "copper does not rust");
    let all = ["negate", "science", "All metals rust."];
    teach(&workspace, &all).expect(2).says("cannot be derived").says("--as");
    told(&workspace, &[&all[..], &["--as", "Gold does not rust."]].concat());
    assert_eq!(held(&workspace), [fact("copper does not rust"), fact("Gold does not rust.")]);
    told(&workspace, &["undo", "science", "2"]);
    assert_eq!(held(&workspace), [fact("Copper rusts."), fact("Gold does not rust.")]);
    assert_eq!(told(&workspace, &["list", "science"])[0]["source"], "affirmed");
}

#[test]
fn a_file_is_imported_as_a_whole_or_not_at_all() {
    let workspace = Workspace::new();
    workspace.write(
        "lessons.jsonl",
        "{\"fact\": \"Iron rusts.\", \"author\": \"bob\", \"reason\": \"seen\"}\n\
         {\"action\": \"negate\", \"fact\": \"Copper rusts.\"}\n\
         {\"action\": \"force\", \"fact\": \"iron rusts\", \"question\": \"Why?\"}\n\
         {\"fact\": \"IRON rusts\"}\n",
    );
    let first = ["import", "science", "lessons.jsonl", "--author", "ada"];
    let imported = told(&workspace, &first);
    assert_eq!((&imported["entries"], &imported["known"]), (&json!([1, 2, 3]), &json!(1)));
    let history = told(&workspace, &["history", "science"]);
    let authors: Vec<&Json> =
        history.as_array().unwrap().iter().map(|entry| &entry["author"]).collect();
    assert_eq!(authors, ["bob", "ada", "ada"]);
    teach(&workspace, &first).expect(0).says("4 lessons already known");
    assert_eq!(told(&workspace, &["history", "science"]), history);

    for (file, content, place, said) in [
        (
            "a.jsonl",
            "{\"fact\": \"Tin shines.\"}\n{\"fct\": \"x\"}\n",
            "a.jsonl:2",
            "unknown field",
        ),
        ("b.csv", "fact,action\nTin shines.,\nTin sinks.,ad\n", "b.csv:3", "did you mean `add`?"),
        (
            "c.jsonl",
            "{\"fact\": \"Tin shines.\"}\n{\"action\": \"force\", \"fact\": \"Tin sinks.\", \"question\": \"Why?\"}\n",
            "c.jsonl:2",
            "does not hold \"Tin sinks.\"",
        ),
        ("d.csv", "fact\nTin shines.\nCopper rusts.\n", "d.csv:3", "conflicts with"),
    ] {
        workspace.write(file, content);
        let import = ["import", "science", file, "--refuse-conflicts"];
        teach(&workspace, &import).expect(2).says(place).says(said);
    }
    teach(&workspace, &["import", "science", "none.jsonl"]).expect(1).says("none.jsonl");
    assert_eq!(told(&workspace, &["history", "science"]), history, "nothing was added");
}

#[test]
fn memories_and_their_history_are_shown() {
    let workspace = Workspace::new();
    let memories = teach(&workspace, &["memories"]).expect(0);
    assert_eq!(memories.stdout.lines().count(), 2, "a header and nothing: {}", memories.stdout);
    teach(&workspace, &["add", "science", COPPER]).expect(0).says("the memory `science` is new");
    let slip = ["add", "sciense", "Iron rusts.", "--author", " "];
    teach(&workspace, &slip).expect(0).says("did you mean `science`?");
    teach(&workspace, &["undo", "sciense", "1", "--reason", "a slip"]).expect(0);
    let memories = told(&workspace, &["memories"]);
    assert_eq!(memories[0]["holds"]["fact"], 1);
    assert_eq!((&memories[1]["entries"], &memories[1]["holds"]["fact"]), (&json!(2), &json!(0)));
    let history = told(&workspace, &["history", "sciense"]);
    assert_eq!((&history[0]["undone_by"], &history[0]["author"]), (&json!(2), &json!("unknown")));
    let table = teach(&workspace, &["history", "sciense"]).expect(0).stdout;
    assert!(table.contains("by 2") && table.contains("a slip"), "{table}");
    teach(&workspace, &["list", "sience"]).expect(2).says("no memory `sience`").says("`science`");
    teach(&workspace, &["undo", "science", "2"]).expect(2).says("there is no entry 2");
    teach(&workspace, &["undo", "sciense", "1"]).expect(2).says("already undone, by entry 2");
    teach(&workspace, &["add", "Science", "x"]).expect(2).says("name of a memory");
    teach(&workspace, &["add", "science", " "]).expect(2).says("is empty");
}

#[test]
fn an_edited_entry_is_reported() {
    let workspace = Workspace::with(PIPELINE);
    told(&workspace, &["add", "science", COPPER]);
    told(&workspace, &["add", "science", "Iron rusts."]);
    let keys = workspace.keys("memories/science/");
    assert_eq!(keys.len(), 2);
    let file = format!("store/{}", keys[0]);
    let text = workspace.read(&file);
    workspace.write(&file, text.replace("copper", "silver"));
    for args in [&["teach", "list", "science"][..], &["run", "p.yaml"], &["plan", "p.yaml"]] {
        workspace.proofmill(args).expect(4).says(&keys[0]).says("damaged");
    }
    std::fs::remove_file(workspace.path(&file)).unwrap();
    teach(&workspace, &["list", "science"]).expect(4).says("entry 1 is missing");
}
