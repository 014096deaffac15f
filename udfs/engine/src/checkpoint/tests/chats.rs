//! Messages through a model's chat template. `tests/parity/chats.py` makes the goldens.

use serde_json::{Value, json};

use super::made::Made;
use crate::checkpoint::{ChatTemplate, Config};
use crate::request::Message;

const GOLDENS: &str = include_str!("chats.json");

/// A template with the tokens of the goldens, or what is wrong with it.
fn template(chat_template: &Value) -> Result<ChatTemplate, String> {
    let goldens: Value = serde_json::from_str(GOLDENS).unwrap();
    let mut settings = goldens["tokens"].clone();
    settings["chat_template"] = chat_template.clone();
    let made = Made::empty().json("tokenizer_config.json", &settings);
    let settings = Config::read(&made.path().join("tokenizer_config.json")).unwrap();
    let source = settings.named_text("chat_template").map(str::to_owned);
    ChatTemplate::read(source, Some(&settings), None)
}

fn messages(chat: &Value) -> Vec<Message> {
    let turn = |turn: &Value| Message {
        role: turn[0].as_str().unwrap().to_owned(),
        content: turn[1].as_str().unwrap().to_owned(),
    };
    chat.as_array().unwrap().iter().map(turn).collect()
}

#[test]
fn messages_are_rendered_as_in_transformers() {
    let goldens: Value = serde_json::from_str(GOLDENS).unwrap();
    let cases = goldens["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let rendered = template(&case["template"]).unwrap().render(&messages(&case["chat"]));
        match (case["text"].as_str(), rendered) {
            (Some(text), rendered) => assert_eq!(rendered.as_deref(), Ok(text), "{case}"),
            (None, Err(why)) => {
                assert!(why.contains(case["refusal"].as_str().unwrap()), "{why} {case}");
            }
            (None, Ok(text)) => panic!("{text:?} {case}"),
        }
    }
}

#[test]
fn of_several_templates_the_default_counts() {
    let named =
        |name: &str| json!({"name": name, "template": format!("{name}: {{{{ eos_token }}}}")});
    let several = template(&json!([named("tool_use"), named("default")])).unwrap();
    assert_eq!(several.render(&[]).unwrap(), "default: </s>");
    let why = template(&json!([named("tool_use")])).unwrap_err();
    assert!(why.contains("has no chat template") && why.contains("give a prompt"), "{why}");
}

#[test]
fn templates_that_cannot_be_followed_say_why() {
    let why = template(&json!("{% generation %}x{% endgeneration %}")).unwrap_err();
    assert!(why.contains("chat template is not understood: syntax error"), "{why}");
    for (source, expected) in [
        ("{{ strftime_now('%Y') }}", "strftime_now"),
        ("{{ raise_exception('no') }}", "no"),
        ("{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}", "fuel"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    ] {
        let why = template(&json!(source)).unwrap().render(&[]).unwrap_err();
        assert!(why.contains(expected), "{source}: {why}");
    }
}
