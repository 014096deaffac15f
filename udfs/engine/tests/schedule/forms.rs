//! Answers of a form: JSON, JSON of a schema, what a regular expression describes. The models have random weights,
//! so nothing but the form makes their answers what they are.

use proofmill_engine::request::{
    Finish, Generate, Generation, NamedSchema, Request, RequestError, ResponseFormat, Strategy,
};
use serde_json::{Value, json};

use crate::ask::{
    ask, ask_all, ask_together, beams, generations, open, plain, sampled, settings, write,
};

/// Those whose tokenizer tells bytes.
const MODELS: [&str; 7] = ["gpt2", "llama", "mistral", "opt", "qwen2", "qwen3", "bart"];

fn schema() -> ResponseFormat {
    let schema = json!({
        "type": "object",
        "properties": {
            "ok": {"type": "boolean"},
            "label": {"enum": ["ba", "ne", "é"]},
            "n": {"type": "integer", "minimum": 3, "maximum": 41},
            "s": {"type": "string", "maxLength": 2},
            "all": {"type": "array", "items": {"$ref": "#/$defs/one"}, "maxItems": 1},
        },
        "required": ["ok", "label", "n", "s", "all"],
        "additionalProperties": false,
        "$defs": {"one": {"type": "null"}},
    });
    let json_schema = NamedSchema { name: "answer".to_owned(), schema, strict: None };
    ResponseFormat::JsonSchema(json_schema)
}

fn regex(regex: &str) -> ResponseFormat {
    ResponseFormat::Regex(regex.to_owned())
}

fn formed(prompt: &str, strategy: Strategy, format: ResponseFormat) -> Generate {
    let response_format = Some(format);
    Generate { response_format, max_tokens: 90, ..plain(prompt, strategy) }
}

/// Whether an answer is JSON of [`schema`].
fn fits(text: &str) -> bool {
    let Ok(Value::Object(answer)) = serde_json::from_str::<Value>(text) else { return false };
    let keys: Vec<&str> = answer.keys().map(String::as_str).collect();
    keys.len() == 5
        && answer["ok"].is_boolean()
        && ["ba", "ne", "é"].iter().any(|label| answer["label"] == *label)
        && answer["n"].as_i64().is_some_and(|n| (3..=41).contains(&n))
        && answer["s"].as_str().is_some_and(|s| s.chars().count() <= 2)
        && answer["all"].as_array().is_some_and(|it| it.len() <= 1 && it.iter().all(Value::is_null))
}

#[test]
fn every_answer_has_the_form_of_its_schema() {
    for name in MODELS {
        let model = open(name, &settings());
        let strategies = (0..12).map(|seed| sampled(seed, 4)).chain([Strategy::Greedy]);
        let requests: Vec<Request> = strategies
            .map(|strategy| Request::Generate(formed("si", strategy, schema())))
            .collect();
        let answers = ask_all(&model, &requests);
        let all: Vec<Generation> = answers.into_iter().flat_map(generations).collect();
        assert_eq!(all.len(), 49);
        for one in &all {
            assert!(one.finish == Finish::End && fits(&one.text), "{name}: {one:?}");
            assert!(one.logprob.unwrap().is_finite());
        }
        let mut texts: Vec<&str> = all.iter().map(|one| one.text.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert!(texts.len() > 10, "{name}: {texts:?}");
    }
}

#[test]
fn every_answer_is_what_its_regular_expression_describes() {
    let is_number =
        |text: &str| (1..=3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    for name in MODELS {
        let model = open(name, &settings());
        for seed in 0..6 {
            let request =
                formed("lu ba", sampled(seed, 3), regex(r"(ba|né): [0-9]{1,3}(, [0-9]{1,3}){2}"));
            for one in write(&model, &request) {
                let (label, numbers) = one.text.split_once(": ").unwrap();
                assert!(["ba", "né"].contains(&label), "{name}: {one:?}");
                assert_eq!(
                    numbers.split(", ").filter(|it| is_number(it)).count(),
                    3,
                    "{name}: {one:?}"
                );
                assert_eq!((numbers.split(", ").count(), one.finish), (3, Finish::End), "{name}");
            }
        }
    }
}

/// Nothing bounds such an object, so it may be cut; what ended is one.
#[test]
fn an_object_without_a_schema_is_an_object() {
    let mut ended = 0;
    for name in MODELS {
        let model = open(name, &settings());
        for seed in 0..6 {
            for one in write(&model, &formed("si", sampled(seed, 4), ResponseFormat::JsonObject)) {
                assert!(one.text.starts_with('{'), "{name}: {one:?}");
                if one.finish == Finish::End {
                    assert!(serde_json::from_str::<Value>(&one.text).unwrap().is_object());
                    ended += 1;
                }
            }
        }
    }
    assert!(ended > 0);
}

#[test]
fn a_forced_beginning_is_a_part_of_the_form() {
    let model = open("gpt2", &settings());
    let with = |prefix: &str| Generate {
        prefix: prefix.to_owned(),
        ..formed("si", sampled(3, 4), schema())
    };
    for one in write(&model, &with("{\"ok\": true, \"la")) {
        assert!(one.text.starts_with("{\"ok\": true, \"la") && fits(&one.text), "{one:?}");
    }
    let why = ask(&model, &Request::Generate(with("so: "))).unwrap_err().to_string();
    assert!(why.contains("no answer of this form begins with the prefix \"so: \""), "{why}");
}

/// Keys are written in the order of the schema, whichever order was requested first.
#[test]
fn the_order_of_a_schema_is_that_of_the_answer() {
    let model = open("gpt2", &settings());
    for names in [["a", "b"], ["b", "a"], ["a", "b"]] {
        let each = names.map(|name| (name.to_owned(), json!({"type": "null"})));
        let schema = json!({
            "type": "object",
            "properties": Value::Object(each.into_iter().collect()),
            "required": names,
            "additionalProperties": false,
        });
        let json_schema = NamedSchema { name: "answer".to_owned(), schema, strict: None };
        let format = ResponseFormat::JsonSchema(json_schema);
        let [first, second] = names;
        let expected = format!("{{\"{first}\": null, \"{second}\": null}}");
        assert_eq!(write(&model, &formed("si", sampled(1, 2), format))[1].text, expected);
    }
}

/// A form changes nothing for others, and others nothing for it.
#[test]
fn answers_of_a_form_have_the_same_bits_alone_and_among_others() {
    let model = open("llama", &settings());
    let requests: Vec<Request> = (0..10)
        .flat_map(|seed| {
            let prompt = ["si", "lu ba ne", "ko da"][seed as usize % 3];
            let free = Generate { logprobs: true, ..plain(prompt, sampled(seed, 2)) };
            let held = formed(prompt, sampled(seed, 2), schema());
            let dated = formed(prompt, Strategy::Greedy, regex("[0-9]{4}-[0-9]{2}"));
            [free, held, dated].map(Request::Generate)
        })
        .collect();
    let together = ask_together(&model, &requests);
    for (request, together) in requests.iter().zip(&together) {
        // The first answers under the same names, as samples depend on them.
        let name = requests.iter().position(|other| other == request).unwrap();
        let mut alone: Vec<Request> = vec![plain_end(); name];
        alone.push(request.clone());
        assert_eq!(&ask_all(&model, &alone)[name], together);
    }
}

fn plain_end() -> Request {
    Request::Generate(Generate { max_tokens: 1, ..plain("si", Strategy::Greedy) })
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let model = open("gpt2", &settings());
    let why = |request: Generate| match ask(&model, &Request::Generate(request)) {
        Err(RequestError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    let held = || formed("si", Strategy::Greedy, schema());
    let out = "leave it or `response_format` out";
    for (request, expected) in [
        (
            Generate { choices: vec!["a".to_owned()], ..held() },
            "`choices` says already what the answer is",
        ),
        (
            Generate { stop: vec!["a".to_owned()], ..held() },
            "`stop` would cut the answer before it has its form",
        ),
        (
            Generate { min_tokens: 2, ..held() },
            "`min_tokens` would forbid the end where the form allows nothing else",
        ),
        (Generate { strategy: beams(2), ..held() }, "`num_beams` is not followed beside it"),
    ] {
        assert_eq!(why(request), format!("{expected}: {out}"));
    }
    let broken = why(formed("si", Strategy::Greedy, regex("a(")));
    assert!(broken.starts_with("`response_format` cannot be followed: "), "{broken}");
    let json_schema = NamedSchema {
        name: "answer".to_owned(),
        schema: json!({"type": "object", "unevaluatedProperties": false}),
        strict: None,
    };
    let unknown = why(formed("si", Strategy::Greedy, ResponseFormat::JsonSchema(json_schema)));
    assert!(unknown.contains("unevaluatedProperties"), "{unknown}");
    // Its tokens tell no bytes.
    let t5 = open("t5", &settings());
    let other = ask(&t5, &Request::Generate(held())).unwrap_err().to_string();
    assert!(other.contains("expected the decoder ByteLevel or ByteFallback"), "{other}");
}
