//! Templates of prompts: exact bytes, and mistakes found before anything runs.

use crate::support::Workspace;

const PIPELINE: &str = "pipeline: p
stages:
  asked:
    sql: |
      SELECT 'a' AS id, 'Is it ‘so’ & <so>?' AS question, ['one', 'two'] AS facts, CAST(NULL AS VARCHAR) AS feedback,
        [named_struct('speaker', 'User', 'text', 'Hi.')] AS history
      UNION ALL SELECT 'b', 'And {{ this }}?', make_array(), 'Again.', [named_struct('speaker', 'User', 'text', 'No.')]
  filled:
    prompt: { from: asked, file: prompt.jinja, column: text }
";
const TEMPLATE: &str = "Facts:
{% for fact in facts %}
  {{ loop.index }}. {{ fact }}
{% endfor %}
{% for turn in history %}
{{ turn.speaker }}: {{ turn.text }}
{% endfor %}
{% if feedback %}
({{ feedback }})
{% endif %}
Q: {{ question }}
A:
";

#[test]
fn are_filled_in_byte_by_byte() {
    let workspace = Workspace::with(PIPELINE);
    workspace.write("prompt.jinja", TEMPLATE);
    workspace.run();
    let rows = workspace.sql("SELECT * FROM filled ORDER BY id");
    assert_eq!(rows[0]["text"], "Facts:\n  1. one\n  2. two\nUser: Hi.\nQ: Is it ‘so’ & <so>?\nA:");
    // What a column holds is text, not a template.
    assert_eq!(rows[1]["text"], "Facts:\nUser: No.\n(Again.)\nQ: And {{ this }}?\nA:");
    assert_eq!(rows[0]["facts"], serde_json::json!(["one", "two"]), "columns stay");

    // The content counts, not the name of the file.
    workspace.write("other.jinja", TEMPLATE);
    workspace.edit("p.yaml", "prompt.jinja", "other.jinja");
    assert!(workspace.run().is_empty());
    workspace.write("other.jinja", TEMPLATE.replace("A:", "Answer:"));
    assert_eq!(workspace.run(), crate::support::set(&["filled"]));
}

#[test]
fn a_slot_without_a_value_fails_the_stage_that_would_write_it() {
    let workspace = Workspace::with(PIPELINE);
    workspace.write("prompt.jinja", "{{ question }}\n{{ feedback }}");
    workspace
        .proofmill(&["run", "p.yaml"])
        .expect(1)
        .says("a slot is NULL where a value must stand")
        .says("line 2 of the template");
}

#[test]
fn mistakes_are_found_by_check() {
    let workspace = Workspace::with(PIPELINE);
    let check = || workspace.proofmill(&["check", "p.yaml"]).expect(3);
    check().says("`prompt.jinja` cannot be read");
    workspace.write("prompt.jinja", "{{ qestion }}");
    check().says("no column `qestion`").says("did you mean `question`?");
    workspace.write("prompt.jinja", "a\n{% if %}");
    check().says("this is not a valid template").says("line 2 of the template");
    workspace.write("prompt.jinja", [0xff, 0xfe]);
    check().says("not UTF-8");
    workspace.write("prompt.jinja", "{{ question }}");
    workspace.edit("p.yaml", "column: text", "column: id");
    check().says("the table already has a column `id`");
}
