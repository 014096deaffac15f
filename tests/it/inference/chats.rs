//! Messages instead of prompts, and answers in a form: what an endpoint is sent, what a model on this machine
//! reads, and what `check` says before anything is asked.

use serde_json::{Value as Json, json};

use crate::server::serve;
use crate::support::Workspace;

/// Says how many turns there were.
fn count(_: usize, body: &Json) -> (&'static str, Json) {
    let turns = body["messages"].as_array().map_or(0, Vec::len);
    let message = json!({ "role": "assistant", "content": format!("{turns} turns") });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 2 });
    ("200 OK", json!({ "choices": [choice], "usage": usage }))
}

#[test]
fn an_endpoint_gets_the_turns_and_the_form_as_they_are() {
    let (url, received) = serve(count);
    let workspace = Workspace::with(&format!(
        r#"
pipeline: chats
models:
  judge: {{ url: "{url}", model: small, api: chat, system: Be fair., concurrency: 1 }}
stages:
  asked: {{ sql: "SELECT 'r1' AS row_id, 'Is it \"so\"?' AS q" }}
  shots:
    generate:
      from: asked
      model: judge
      messages:
        - {{ role: user, content: "'2+2?'" }}
        - {{ role: assistant, content: "'4'" }}
        - {{ role: user, content: "q || ' Say JSON.'" }}
      response_format:
        type: json_schema
        json_schema: {{ name: verdict, file: verdict.json, strict: true }}
  own:
    generate: {{ from: asked, model: judge, messages: [{{ role: system, content: "'It''s {{\"a\": 1}} -- short.' -- why" }}, {{ role: user, content: q }}], response_format: {{ type: json_object }} }}
  dialogs: {{ sql: "SELECT row_id, [named_struct('role', 'user', 'content', q), named_struct('role', 'tool', 'content', 'x')] AS dialog FROM asked" }}
  columns:
    generate: {{ from: dialogs, model: judge, prompt: dialog }}
"#
    ));
    let schema =
        r#"{"type": "object", "properties": {"why": {"type": "string"}, "is": {"const": null}}}"#;
    workspace.write("verdict.json", schema);
    workspace.proofmill(&["run", "p.yaml", "-j", "1"]).expect(0);
    let sent = |turns: &[(&str, &str)]| {
        let all = received.lock().unwrap().clone();
        let turn = |(role, content): &(&str, &str)| json!({ "role": role, "content": content });
        let turns: Json = turns.iter().map(turn).collect();
        let found = all.iter().find(|(_, body)| body["messages"] == turns);
        found.unwrap_or_else(|| panic!("{turns} in {all:#?}")).1.clone()
    };
    let shots = sent(&[
        ("system", "Be fair."),
        ("user", "2+2?"),
        ("assistant", "4"),
        ("user", "Is it \"so\"? Say JSON."),
    ]);
    let schema: Json = serde_json::from_str(schema).unwrap();
    let form = json!({ "name": "verdict", "schema": schema, "strict": true });
    assert_eq!(
        shots["response_format"].to_string(),
        json!({ "type": "json_schema", "json_schema": form }).to_string()
    );
    let own = sent(&[("system", "It's {\"a\": 1} -- short."), ("user", "Is it \"so\"?")]);
    assert_eq!(own["response_format"], json!({ "type": "json_object" }));
    let columns = sent(&[("system", "Be fair."), ("user", "Is it \"so\"?"), ("tool", "x")]);
    assert!(columns.get("response_format").is_none(), "{columns}");
    let rows = workspace.sql("SELECT text, messages[3]['content'] AS last FROM shots");
    assert_eq!(rows, [json!({ "text": "4 turns", "last": "Is it \"so\"? Say JSON." })]);

    // The content of the schema counts and not where it lies, and nothing is asked twice.
    workspace.write("moved.json", workspace.read("verdict.json").replace(' ', "  "));
    workspace.edit("p.yaml", "verdict.json", "moved.json");
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("0 stages computed");
    workspace.write("moved.json", workspace.read("moved.json").replace("null", "0"));
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("1 stage computed");
    assert_eq!(received.lock().unwrap().len(), 4);
}

/// A template as those of instruct models, for a tiny model.
const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}\
                        {% if add_generation_prompt %}<assistant>{% endif %}";

#[test]
fn a_model_on_this_machine_reads_messages_through_its_template() {
    let workspace = Workspace::with(
        r#"
pipeline: chats
models:
  chatty: { path: chatty, kv_cache_mib: 8 }
stages:
  asked: { sql: "SELECT 'r1' AS row_id, ' the cat ' AS q" }
  written:
    generate: { from: asked, model: chatty, messages: [{ role: system, content: "'sat'" }, { role: user, content: q }], options: { max_tokens: 8 } }
  rendered:
    generate: { from: asked, model: chatty, prompt: "'<system>sat<user>the cat<assistant>'", options: { max_tokens: 8 } }
  likely:
    score: { from: asked, model: chatty, messages: [{ role: user, content: q }], continuation: "' sat'" }
  as_likely:
    score: { from: asked, model: chatty, prompt: "'<user>the cat<assistant>'", continuation: "' sat'" }
"#,
    );
    workspace.add_model("gpt2", "chatty");
    let file = "chatty/tokenizer_config.json";
    let mut settings: Json = serde_json::from_str(&workspace.read(file)).unwrap();
    settings["chat_template"] = TEMPLATE.into();
    workspace.write(file, settings.to_string());
    let checked = workspace.proofmill(&["check", "p.yaml"]).expect(0);
    let said = checked.stdout + &checked.stderr;
    assert_eq!(said.matches("`chatty` has a chat template").count(), 1, "{said}");
    assert!(said.contains("warning[E0407]") && said.contains("p.yaml:4:19"), "{said}");
    let same_as_rendered = || {
        workspace.proofmill(&["run", "p.yaml"]).expect(0).says("stages computed");
        for (of_messages, of_text, columns) in [
            ("written", "rendered", "text, prompt_tokens, output_tokens, logprob"),
            ("likely", "as_likely", "logprob, tokens, prompt_tokens"),
        ] {
            let rows = |table: &str| workspace.sql(&format!("SELECT {columns} FROM {table}"));
            assert_eq!(rows(of_messages), rows(of_text));
        }
    };
    same_as_rendered();
    let digests = workspace.sql(
        "SELECT count(DISTINCT request_digest) AS n FROM (SELECT request_digest FROM written UNION \
         ALL SELECT request_digest FROM rendered)",
    );
    assert_eq!(digests[0]["n"], 2);

    // A file of its own comes first, as newer versions of transformers write one; it is a part of the model.
    settings["chat_template"] = "another".into();
    workspace.write(file, settings.to_string());
    workspace.write("chatty/chat_template.jinja", TEMPLATE);
    same_as_rendered();
}

#[test]
fn without_a_template_there_are_no_messages_and_no_form() {
    let workspace = Workspace::with(
        r#"
pipeline: chats
models:
  plain: { path: plain }
stages:
  asked: { sql: "SELECT 'r1' AS row_id, 'the cat' AS q" }
  written: { generate: { from: asked, model: plain, messages: [{ role: user, content: q }] } }
  formed: { generate: { from: asked, model: plain, prompt: q, response_format: { type: regex } } }
"#,
    );
    workspace.add_model("gpt2", "plain");
    let said = workspace.proofmill(&["check", "p.yaml"]).expect(3).stderr;
    for expected in [
        "the model has no chat template for messages",
        "p.yaml:7:63",
        "`type: regex` needs `regex`",
        "p.yaml:8:80",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    // Where nobody can tell before: a row is refused.
    workspace.write(
        "q.yaml",
        "pipeline: q\nmodels: { plain: { path: plain } }\nstages:\n  a: { sql: \"SELECT \
         generate('plain', [named_struct('role', 'user', 'content', 'x')]) AS g\" }\n",
    );
    workspace.proofmill(&["run", "q.yaml"]).expect(1).says("folder has no chat template");
}
