//! `proofmill ledger`: what was answered is listed, forgotten on demand, and asked again then.

use serde_json::Value as Json;

use crate::inference::models::asked;
use crate::support::Workspace;

const PIPELINE: &str = r#"
pipeline: answers
models:
  small: { path: small, device: cpu, kv_cache_mib: 8 }
  exact: { path: small, device: cpu, kv_cache_mib: 8, dtype: int8 }
stages:
  asked:
    sql: SELECT 'r' || n AS row_id, 'the cat ' || n AS q FROM (SELECT unnest(range(4)) AS n)
  one:
    generate: { from: asked, model: small, prompt: q, options: { max_tokens: 2, min_tokens: 2 } }
  two:
    score: { from: asked, model: exact, prompt: q, continuation: "' sat'" }
"#;

/// What a run that asks both stages again has asked and replayed.
fn again(workspace: &Workspace) -> [[u64; 2]; 2] {
    let done = workspace.proofmill(&["run", "p.yaml", "--rerun", "one,two"]).expect(0);
    ["one", "two"].map(|stage| {
        let [new, replayed, failed] = asked(&done.stderr, stage);
        assert_eq!(failed, 0);
        [new, replayed]
    })
}

fn models(workspace: &Workspace) -> Vec<Json> {
    workspace.json(&["ledger", "list"])["models"].as_array().unwrap().clone()
}

#[test]
fn answers_are_forgotten_by_model_and_by_request_and_asked_again() {
    let workspace = Workspace::with(PIPELINE);
    workspace.add_model("gpt2", "small");
    workspace.proofmill(&["ledger", "list"]).expect(0);
    workspace.run();
    assert_eq!(again(&workspace), [[0, 4], [0, 4]]);
    let listed = models(&workspace);
    assert_eq!(listed.len(), 2);
    let of = |kind: &str| listed.iter().find(|it| it["kinds"][kind] == 4).unwrap().clone();
    let (one, two) = (of("generate"), of("score"));
    let id = |model: &Json| model["id"].as_str().unwrap().to_owned();

    // The weights are those of both: nobody guesses which are meant.
    let identity: Json = serde_json::from_str(one["model"].as_str().unwrap()).unwrap();
    let weights = identity["weights"].as_str().unwrap();
    let done = workspace.proofmill(&["ledger", "forget", "--model", weights]).expect(2);
    done.says(&id(&one)).says(&id(&two));
    for wrong in [["--model", "nobody"], ["--model", ""], ["--request", "12"]] {
        workspace.proofmill(&["ledger", "forget", wrong[0], wrong[1]]).expect(2);
    }
    let none = "0".repeat(64);
    workspace.proofmill(&["ledger", "forget", "--request", &none]).expect(2).says("no recorded");
    workspace.proofmill(&["ledger", "forget"]).expect(2);
    assert_eq!(again(&workspace), [[0, 4], [0, 4]], "nothing was forgotten");

    let reason = "swapped\u{1b}[31m";
    let forget = ["ledger", "forget", "--model", &id(&one), "--reason", reason, "--author", "mia"];
    let done = workspace.proofmill(&forget).expect(0).says("--rerun STAGE");
    assert!(done.stdout.starts_with("forgot 4 answers of "), "{}", done.stdout);
    assert_eq!(models(&workspace).len(), 1);
    // What is stored stays; who asks again asks the model.
    assert!(workspace.run().is_empty());
    assert_eq!(again(&workspace), [[4, 0], [0, 4]]);
    assert_eq!(again(&workspace), [[0, 4], [0, 4]]);

    let digest = workspace.sql("SELECT request_digest AS d FROM two WHERE row_id = 'r2'");
    let digest = digest[0]["d"].as_str().unwrap();
    workspace.proofmill(&["ledger", "forget", "--request", digest]).expect(0);
    assert_eq!(again(&workspace), [[0, 4], [1, 3]]);
    let forgotten = workspace.json(&["ledger", "list"])["forgotten"].as_array().unwrap().clone();
    assert_eq!(forgotten.len(), 2);
    assert_eq!((&forgotten[0]["author"], &forgotten[0]["answers"]), (&"mia".into(), &4.into()));
    assert_eq!(forgotten[1]["requests"][0], digest);
    let shown = workspace.proofmill(&["ledger", "list"]).expect(0).stdout;
    assert!(shown.contains("mia") && !shown.contains('\u{1b}'), "{shown}");
}
