//! Alerts: one message when a condition begins, one when it is over, to receivers that nobody can turn against the network of the daemon.

use serde_json::{Value as Json, json};

use crate::scheduling::mail::serve_mail;
use crate::server::serve;
use crate::support::Workspace;

fn took(_: usize, _: &Json) -> (&'static str, Json) {
    ("200 OK", json!({}))
}

/// A pipeline that fails where `bad.csv` says so, and a schedule that tells of it.
fn nightly(receivers: &str) -> Workspace {
    let workspace = Workspace::with(
        "pipeline: nightly\nstages:\n  rows: { read: { path: a.csv } }\n  each: { sql: SELECT 1 / x AS y FROM rows }\n",
    );
    workspace.write("s.yaml", format!(
        "kind: schedule\nname: nights\npipeline: p.yaml\ncron: '0 2 * * *'\nalerts:\n  close_after: 2\n  to: [{receivers}]\n"
    ));
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    workspace
}

impl Workspace {
    /// A night that succeeds or does not: what the tick says.
    fn night(&self, is_good: bool) -> String {
        self.write("a.csv", if is_good { "x\n1\n" } else { "x\n0\n" });
        self.proofmill(&["schedule", "trigger", "nights"]).expect(0);
        let done = self.proofmill(&["schedule", "tick"]).expect(if is_good { 0 } else { 1 });
        done.stderr
    }

    /// What a file of alerts has: whether each message is open or closed.
    fn messages(&self) -> Vec<Json> {
        let text = std::fs::read_to_string(self.path("alerts.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn a_condition_sends_one_message_when_it_begins_and_one_when_it_is_over() {
    let (url, received) = serve(took);
    let workspace = nightly(&format!(
        "{{ file: alerts.jsonl }}, {{ webhook: {{ url: '{url}/hook', allow_private: true }} }}"
    ));
    let states = || {
        workspace
            .messages()
            .iter()
            .map(|it| it["state"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    workspace.night(true);
    assert_eq!(states(), [""; 0]);
    // It flaps: one message.
    for is_good in [false, false, true, false, true] {
        workspace.night(is_good);
    }
    assert_eq!(states(), ["open"]);
    let status = workspace.json(&["schedule", "status"]);
    assert_eq!(status[0]["alerts"]["failed"]["nights_without"], 1, "{status:#}");
    let shown = workspace.proofmill(&["schedule", "status"]).stdout;
    assert!(shown.contains("nights: the night did not succeed since"), "{shown}");
    workspace.night(true);
    assert_eq!(states(), ["open", "closed"]);
    workspace.night(true);
    workspace.proofmill(&["schedule", "tick"]).expect(0);
    assert_eq!(states(), ["open", "closed"]);
    let sent = received.lock().unwrap();
    let bodies: Vec<&Json> = sent.iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, workspace.messages().iter().collect::<Vec<_>>());
    let text = bodies[0]["text"].as_str().unwrap();
    assert!(text.starts_with("schedule nights: the night did not succeed (run "), "{text}");
}

#[test]
fn a_receiver_that_is_down_or_inside_gets_nothing_and_the_others_get_theirs() {
    let metadata = "{ webhook: { url: 'http://169.254.169.254/latest' } }";
    let inside = "{ webhook: { url: 'http://localhost:1/x' } }";
    let workspace = nightly(&format!("{metadata}, {inside}, {{ file: alerts.jsonl }}"));
    let said = workspace.night(false);
    assert!(said.contains("no public address") && said.contains("allow_private"), "{said}");
    assert_eq!(workspace.messages().len(), 1);
    let status = workspace.proofmill(&["schedule", "status"]).stdout;
    assert!(status.contains("nights: 1 message of its alerts not delivered yet"), "{status}");
    // It is not tried again at once, and the file has no second line.
    workspace.proofmill(&["schedule", "tick"]).expect(0);
    assert_eq!(workspace.messages().len(), 1);
    workspace
        .proofmill(&["schedule", "test-alerts", "nights"])
        .expect(2)
        .says("receiver 3 took it");
    assert_eq!(workspace.messages()[1]["state"], "test");
}

#[test]
fn an_address_that_is_a_secret_stays_in_the_environment() {
    let (url, received) = serve(took);
    let workspace = nightly("{ webhook: { url_env: NIGHT_HOOK, allow_private: true } }");
    let tick = |set: bool| {
        let mut command = workspace.command(&["schedule", "tick"]);
        if set {
            command.env("NIGHT_HOOK", format!("{url}/s3cr3t"));
        }
        command.output().unwrap()
    };
    workspace.write("a.csv", "x\n0\n");
    workspace.proofmill(&["schedule", "trigger", "nights"]).expect(0);
    let done = tick(true);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(received.lock().unwrap().len(), 1);
    let everything = String::from_utf8_lossy(&done.stderr).into_owned()
        + &workspace.proofmill(&["schedule", "status", "--json"]).stdout;
    assert!(!everything.contains("s3cr3t"), "{everything}");
    assert!(workspace.keys("schedules").iter().all(|key| {
        !std::fs::read_to_string(workspace.path("proofmill-store").join(key))
            .unwrap_or_default()
            .contains("s3cr3t")
    }));
    workspace.proofmill(&["schedule", "test-alerts", "nights"]).expect(2).says("`NIGHT_HOOK`");
}

#[test]
fn mail_goes_to_its_receivers_and_never_in_the_open_unless_that_is_wanted() {
    let (port, told) = serve_mail(&["SIZE 1000000"]);
    let mail = |more: &str| {
        format!(
            "{{ mail: {{ to: [ops@a.example, Night Watch <watch@b.example>], from: proofmill@c.example, server: localhost, port: {port}{more} }} }}"
        )
    };
    let send = |more: &str| {
        let workspace = nightly(&mail(more));
        let mut command = workspace.command(&["schedule", "test-alerts", "nights"]);
        let done = command.env("MAIL_USER", "u").env("MAIL_PASSWORD", "s3cr3t").output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, said) = send(", encryption: none");
    assert!(code == Some(2) && said.contains("no public address"), "{said}");
    assert_eq!(told.lock().unwrap().len(), 0, "nothing was said to the server");
    // The server offers no encryption, so that it gets neither the password nor the message.
    let login = ", allow_private: true, user_env: MAIL_USER, password_env: MAIL_PASSWORD";
    for more in [login, ", allow_private: true"] {
        let (code, said) = send(more);
        assert!(code.is_some_and(|code| code > 1) && !said.contains("s3cr3t"), "{said}");
    }
    let heard = told.lock().unwrap().join("\n");
    assert!(!heard.contains("AUTH") && !heard.contains("MAIL"), "{heard}");
    let workspace = nightly(&mail(", allow_private: true, encryption: none"));
    workspace.night(false);
    let heard = told.lock().unwrap().join("\n");
    for line in [
        "RCPT TO:<ops@a.example>",
        "RCPT TO:<watch@b.example>",
        "Subject: [proofmill] nights: the night did not succeed",
        "schedule nights: the night did not succeed (run ",
    ] {
        assert!(heard.contains(line), "{line}: {heard}");
    }
    assert_eq!(heard.matches("Subject: ").count(), 1);
}

#[test]
fn wrong_alerts_are_refused_at_their_place() {
    let workspace = nightly("{ file: alerts.jsonl }");
    let schedule = workspace.read("s.yaml");
    for (receiver, said) in [
        ("{ webhook: { url: 'https://a.example/x', url_env: A } }", "one of `url` and `url_env`"),
        ("{ webhook: {} }", "one of `url` and `url_env`"),
        ("{ webhook: { url: 'ftp://a.example' } }", "no address of a webhook"),
        ("{ webhook: { url: 'https://user:pass@a.example' } }", "no address of a webhook"),
        ("{ mail: a }", "mail"),
        ("{ mail: { to: [], from: a@b, server: s } }", "no address is named"),
        ("{ mail: { to: [ops], from: a@b, server: s } }", "`ops` is no address"),
        ("{ mail: { to: [\"a@b\\r\\nBcc: c@d\"], from: a@b, server: s } }", "is no address"),
        ("{ mail: { to: [a@b], from: a@b, server: 's/x' } }", "no name of a server"),
        ("{ mail: { to: [a@b], from: a@b, server: s, user_env: U } }", "give both"),
        (
            "{ mail: { to: [a@b], from: a@b, server: s, user_env: U, password_env: P, encryption: none } }",
            "not sent without encryption",
        ),
        ("{ mail: { to: [a@b], from: a@b, server: s, port: 0 } }", "port"),
    ] {
        workspace.write("s.yaml", schedule.replace("{ file: alerts.jsonl }", receiver));
        workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(3).says("s.yaml:7").says(said);
    }
    workspace.write("s.yaml", schedule.replace("close_after: 2", "close_after: 2\n  on: []"));
    workspace
        .proofmill(&["schedule", "apply", "s.yaml"])
        .expect(3)
        .says("no condition sends a message");
}

#[test]
fn a_night_that_cannot_begin_sends_one_message_and_begins_once_it_can() {
    let workspace = nightly("{ file: alerts.jsonl }");
    let pipeline = workspace.read("p.yaml");
    for (name, broken) in [("wrong", pipeline.replace("SELECT", "SELEC")), ("gone", String::new())]
    {
        match name {
            "gone" => std::fs::remove_file(workspace.path("p.yaml")).unwrap(),
            _ => workspace.write("p.yaml", &broken),
        }
        workspace.write("a.csv", "x\n1\n");
        workspace.proofmill(&["schedule", "trigger", "nights"]).expect(0);
        let before = workspace.messages().len();
        for _ in 0..3 {
            assert!(workspace.proofmill(&["schedule", "tick"]).code > Some(1), "{name}");
        }
        let messages = workspace.messages();
        assert_eq!(messages.len(), before + 1, "{name}: {messages:#?}");
        let last = messages.last().unwrap();
        assert_eq!((&last["state"], last.get("run")), (&json!("open"), None));
        let text = last["text"].as_str().unwrap();
        assert!(text.contains("which could not begin"), "{text}");
        let history = workspace.proofmill(&["schedule", "history", "nights"]).stdout;
        assert!(history.contains("could not begin: "), "{history}");
        workspace.write("p.yaml", &pipeline);
        workspace.proofmill(&["schedule", "tick"]).expect(0);
        workspace.night(true);
        workspace.night(true);
        assert_eq!(workspace.messages().last().unwrap()["state"], "closed");
    }
}
