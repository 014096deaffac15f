//! Nights with a verdict: schedules that have a gate.

use serde_json::{Value as Json, json};

use super::{ACCURACY, Gated, answers};

/// A schedule with a gate over the answers of `a.csv`, applied.
fn nightly(gate: &str) -> Gated {
    let gated = Gated::new(gate);
    gated.0.write(
        "s.yaml",
        "kind: schedule\nname: nights\npipeline: p.yaml\ncron: '0 2 * * *'\ngate: gate.yaml\n",
    );
    gated.run(&answers(100, 80), &[]);
    gated
}

impl Gated {
    /// A night: the exit code of the tick, and what became of it.
    #[track_caller]
    fn night(&self, code: i32) -> Json {
        self.0.proofmill(&["schedule", "trigger", "nights"]).expect(0);
        self.0.proofmill(&["schedule", "tick", "--json"]).expect(code).json()[0][1]["ran"].clone()
    }

    /// Changes the answers without a run.
    fn answered(&self, right: usize) {
        let text = answers(100, right)
            .into_iter()
            .map(|it| format!("{},{},{},{},0.0\n", it.id, it.sample, it.doc, it.correct.unwrap()));
        let text = text.collect::<String>();
        self.0.write("a.csv", format!("id,sample,doc,correct,score\n{text}"));
    }
}

#[test]
fn each_night_is_judged_and_the_exit_code_says_how() {
    let gated = nightly(&format!("channel: good\n{ACCURACY}"));
    gated.0.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    // Nobody has pinned a baseline.
    let night = gated.night(6);
    assert_eq!((&night["how"], &night["verdict"]), (&json!("succeeded"), &json!("not_comparable")));
    let pin = ["channel", "pin", "nightly", "--owner", "ana", "--reason", "reviewed"];
    gated.0.proofmill(&pin).expect(0);
    gated.answered(81);
    let good = gated.night(0);
    assert_eq!(good["verdict"], "pass");
    gated.answered(60);
    assert_eq!(gated.night(1)["verdict"], "fail");
    let status = gated.0.json(&["schedule", "status"]);
    assert_eq!(status[0]["last"]["verdict"], "fail", "{status:#}");
    let shown = gated.0.proofmill(&["schedule", "history", "nights"]).stdout;
    assert!(shown.contains("succeeded, fail") && shown.contains("succeeded, pass"), "{shown}");
    let channels = gated.0.json(&["channel", "list", "nightly"]);
    assert_eq!(channels["channels"][1]["run"], good["fired"]["run"]);
    // Why, from the store.
    let why = gated.0.proofmill(&["gate", "--check", "nightly"]).expect(0).stdout;
    assert!(why.contains("a drop of 0.2000, more than chance"), "{why}");
    // A night that fails is not finished, whatever its tables say.
    gated.0.edit("p.yaml", "judged:", "broken: { sql: SELECT 1/0 AS x }\n  judged:");
    assert_eq!(gated.night(1)["verdict"], "not_finished");
    let verified = gated.0.json(&["audit", "verify", "--all", "--level", "3"]);
    assert_eq!(verified["findings"], json!([]));
}

#[test]
fn a_gate_counts_as_it_was_applied_and_a_wrong_one_fires_nothing() {
    let gated = nightly(ACCURACY);
    gated.0.write("bad.yaml", "kind: gate\nname: bad\nmetrics: []\n");
    let schedule = gated.0.read("s.yaml");
    gated.0.write("s.yaml", schedule.replace("gate.yaml", "bad.yaml"));
    gated
        .0
        .proofmill(&["schedule", "apply", "s.yaml"])
        .expect(3)
        .says("s.yaml:5:7")
        .says("bad.yaml:3");
    gated.0.write("s.yaml", schedule.replace("gate.yaml", "none.yaml"));
    gated.0.proofmill(&["schedule", "apply", "s.yaml"]).expect(3).says("none.yaml");
    gated.0.write("s.yaml", &schedule);
    gated.0.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    // The file is another one now: the schedule is not.
    gated.0.write(
        "gate.yaml",
        "kind: gate\nname: other\nmetrics: [{ metric: judged.f1, min_effect: 1 }]\n",
    );
    gated.night(6);
    gated.0.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    gated.0.proofmill(&["schedule", "trigger", "nights"]).expect(0);
    let runs = gated.0.json(&["runs"]).as_array().unwrap().len();
    gated
        .0
        .proofmill(&["schedule", "tick"])
        .expect(3)
        .says("the gate of `nights`: `judged` has no metric `f1`");
    assert_eq!(gated.0.json(&["runs"]).as_array().unwrap().len(), runs, "nothing was fired");
}

#[test]
fn two_gates_at_once_enter_one_verdict_and_move_one_channel() {
    let gated = nightly(&format!("channel: good\n{ACCURACY}"));
    gated.run(&answers(100, 81), &[]);
    let children: Vec<_> = (0..6)
        .map(|n| gated.0.start(&["gate", "--file", "gate.yaml"], &format!("said{n}")))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let log = gated.0.json(&["audit", "log"]);
    let verdicts = log.as_array().unwrap().iter().filter(|it| it["event"]["judged"].is_object());
    assert_eq!(verdicts.count(), 1, "{log:#}");
    let verified = gated.0.json(&["audit", "verify", "--all"]);
    assert_eq!(verified["findings"], json!([]));
}
