//! The one way a request is written down, and the key made of it.
//!
//! Canonical JSON: one line, no spaces, keys in the order of their bytes, every field present,
//! numbers in the shortest decimal form that gives the same number again. It is also what serde reads
//! as a [`Request`]. Written by hand, so that neither a library's habits nor the order of fields
//! can change a key; `docs/specs/functions-model.md` is its definition.

use proofmill_base::digest::{Digest, Hasher};
use proofmill_engine::request::{
    Classify, Embed, Generate, Hidden, HiddenRows, Keep, Message, NamedSchema, Prompt, Request,
    ResponseFormat, Score, Strategy, Truncate,
};
use serde_json::Value;

/// SHA-256 over model and request.
pub type Key = [u8; 32];

/// First line of what a key is the digest of. Changes whenever the same text means something else.
const TAG: &str = "proofmill-request-1";

/// The key of a request to a model: SHA-256 over three lines, of which the last has no line end:
/// the tag, the model's identity, and the canonical request (which has no line breaks).
pub fn key(identity: &str, canonical: &str) -> Key {
    let mut hasher = Hasher::default();
    for part in [TAG, "\n", identity, "\n", canonical] {
        hasher.update(part.as_bytes());
    }
    *hasher.finish().as_bytes()
}

/// A key as 64 lower-case hex digits.
pub fn hex(key: &Key) -> String {
    Digest::from(*key).to_string()
}

/// The kind of a request: the one key of its canonical form.
pub(super) fn kind(request: &Request) -> &'static str {
    match request {
        Request::Generate(_) => "generate",
        Request::Score(_) => "score",
        Request::Embed(_) => "embed",
        Request::Hidden(_) => "hidden",
        Request::Classify(_) => "classify",
    }
}

/// The canonical form of a request.
pub fn canonical(request: &Request) -> String {
    let body = match request {
        Request::Generate(generate) => generation(generate),
        Request::Score(score) => scoring(score),
        Request::Embed(embed) => text_only(embed),
        Request::Hidden(hidden) => states(hidden),
        Request::Classify(classify) => classification(classify),
    };
    object([(kind(request), body)])
}

// The fields are named one by one: a new one does not compile until it has its place in the key.

fn generation(generate: &Generate) -> String {
    let Generate {
        prompt,
        truncate,
        prefix,
        strategy,
        max_tokens,
        min_tokens,
        stop,
        choices,
        response_format,
        logprobs,
    } = generate;
    let mut fields = vec![
        ("prompt", input(prompt)),
        ("truncate", cut(truncate)),
        ("prefix", string(prefix)),
        ("strategy", choice(strategy)),
        ("max_tokens", max_tokens.to_string()),
        ("min_tokens", min_tokens.to_string()),
        ("stop", strings(stop)),
        ("among", strings(choices)),
    ];
    // Requests that were made before there was such a thing keep their keys.
    fields.extend(
        response_format.as_ref().map(|format| ("response_format", canonical_format(format))),
    );
    fields.extend(logprobs.then(|| ("logprobs", logprobs.to_string())));
    object(fields)
}

fn scoring(score: &Score) -> String {
    let Score { prompt, messages, truncate, continuations, include_eos, logprobs, prompt_logprobs } =
        score;
    let mut fields = vec![
        ("prompt", string(prompt)),
        ("truncate", cut(truncate)),
        ("continuations", strings(continuations)),
        ("with_end", include_eos.to_string()),
    ];
    if !messages.is_empty() {
        fields.push(("messages", turns(messages)));
    }
    for (name, requested) in [("logprobs", logprobs), ("prompt_logprobs", prompt_logprobs)] {
        fields.extend(requested.then(|| (name, requested.to_string())));
    }
    object(fields)
}

fn text_only(embed: &Embed) -> String {
    let Embed { text, truncate } = embed;
    object([("text", string(text)), ("truncate", cut(truncate))])
}

fn states(hidden: &Hidden) -> String {
    let Hidden { text, truncate, layer, rows } = hidden;
    let mut fields = vec![("text", string(text)), ("truncate", cut(truncate))];
    // Requests that were made before there was a choice keep their keys.
    if *layer != -1 {
        fields.push(("layer", layer.to_string()));
    }
    let rows = match rows {
        HiddenRows::Last => None,
        HiddenRows::First => Some("first"),
        HiddenRows::Mean => Some("mean"),
        HiddenRows::All => Some("all"),
    };
    fields.extend(rows.map(|rows| ("rows", string(rows))));
    object(fields)
}

fn classification(classify: &Classify) -> String {
    let Classify { text, pair, truncate } = classify;
    let pair = pair.as_ref().map_or_else(|| "null".to_owned(), |pair| string(pair));
    object([("text", string(text)), ("pair", pair), ("truncate", cut(truncate))])
}

fn input(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => object([("text", string(text))]),
        Prompt::Messages(messages) => object([("messages", turns(messages))]),
        Prompt::Passages(passages) => object([("passages", strings(passages))]),
    }
}

fn turns(messages: &[Message]) -> String {
    let turn = |Message { role, content }: &Message| {
        object([("role", string(role)), ("content", string(content))])
    };
    format!("[{}]", messages.iter().map(turn).collect::<Vec<_>>().join(","))
}

/// The canonical form of the form of an answer. Its schema keeps the order of its keys: endpoints write
/// what they write in that order.
pub fn canonical_format(format: &ResponseFormat) -> String {
    match format {
        ResponseFormat::JsonObject => object([("type", string("json_object"))]),
        ResponseFormat::Regex(regex) => {
            object([("type", string("regex")), ("regex", string(regex))])
        }
        ResponseFormat::JsonSchema(NamedSchema { name, schema, strict }) => {
            let mut fields = vec![("name", string(name)), ("schema", json(schema))];
            fields.extend(strict.map(|strict| ("strict", strict.to_string())));
            object([("type", string("json_schema")), ("json_schema", object(fields))])
        }
    }
}

/// Any JSON, as it was read.
fn json(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => string(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(json).collect::<Vec<_>>().join(","))
        }
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(key, value)| format!("{}:{}", string(key), json(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
    }
}

fn cut(truncate: &Option<Truncate>) -> String {
    let Some(Truncate { tokens, keep }) = truncate else {
        return "null".into();
    };
    let keep = match keep {
        Keep::Start => "start",
        Keep::End => "end",
    };
    object([("tokens", tokens.to_string()), ("keep", string(keep))])
}

fn choice(strategy: &Strategy) -> String {
    match strategy {
        Strategy::Greedy => string("greedy"),
        Strategy::Sample { temperature, top_k, top_p, seed, samples } => {
            let fields = [
                ("temperature", number(*temperature)),
                ("top_k", top_k.to_string()),
                ("top_p", number(*top_p)),
                ("seed", seed.to_string()),
                ("samples", samples.to_string()),
            ];
            object([("sample", object(fields))])
        }
        Strategy::Beam { beams, answers, length_penalty, early_stopping } => {
            let fields = [
                ("beams", beams.to_string()),
                ("answers", answers.to_string()),
                ("length_penalty", number(*length_penalty)),
                ("early_stopping", early_stopping.to_string()),
            ];
            object([("beam", object(fields))])
        }
    }
}

/// An object of values that are JSON already, in the order of the keys.
fn object<'k>(fields: impl Into<Vec<(&'k str, String)>>) -> String {
    let mut fields = fields.into();
    fields.sort_unstable();
    let fields = fields.into_iter().map(|(key, value)| format!("\"{key}\":{value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn strings(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| string(text)).collect();
    format!("[{}]", texts.join(","))
}

/// Shortest decimal that reads as the same `f32`, never with an exponent. Options are finite; -0 is 0.
fn number(value: f32) -> String {
    (value + 0.0).to_string()
}

/// A JSON string: only `"`, `\` and the characters below U+0020 are escaped.
fn string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use proofmill_engine::request::Strategy;
    use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::Strategy as Generator;

    use super::*;

    fn sample() -> Request {
        Request::Generate(Generate {
            prompt: Prompt::Text("say \"hi\"\n\u{1}é".into()),
            truncate: Some(Truncate { tokens: 512, keep: Keep::End }),
            prefix: String::new(),
            strategy: Strategy::Sample {
                temperature: 0.7,
                top_k: 0,
                top_p: 1.0,
                seed: u64::MAX,
                samples: 2,
            },
            max_tokens: 128,
            min_tokens: 0,
            stop: vec!["\n".into()],
            choices: vec![],
            response_format: None,
            logprobs: false,
        })
    }

    /// Answers of users lie under such keys: a change here makes every ledger worthless.
    #[test]
    fn keys_stay_what_they_are() {
        let json = r#"{"generate":{"among":[],"max_tokens":128,"min_tokens":0,"prefix":"","prompt":{"text":"say \"hi\"\n\u0001é"},"stop":["\n"],"strategy":{"sample":{"samples":2,"seed":18446744073709551615,"temperature":0.7,"top_k":0,"top_p":1}},"truncate":{"keep":"end","tokens":512}}}"#;
        assert_eq!(canonical(&sample()), json);
        assert_eq!(
            hex(&key("tiny sha256:00", json)),
            "549186bf3566bc06412c841e21f77d18eb8a055cb8fd27e26bc5f0a0186c4eae"
        );
    }

    const ROWS: [HiddenRows; 4] =
        [HiddenRows::Last, HiddenRows::First, HiddenRows::Mean, HiddenRows::All];

    fn texts() -> impl Generator<Value = Vec<String>> {
        prop::collection::vec(".*", 0..3)
    }

    fn truncates() -> impl Generator<Value = Option<Truncate>> {
        prop::option::of((any::<u32>(), any::<bool>()).prop_map(|(tokens, start)| Truncate {
            tokens,
            keep: if start { Keep::Start } else { Keep::End },
        }))
    }

    fn positive() -> impl Generator<Value = f32> {
        // What serde_json reads exactly: few digits and a small exponent, as people write them.
        (0u32..1_000_000, 0i32..6)
            .prop_map(|(digits, places)| format!("{digits}e-{places}").parse().unwrap())
    }

    fn strategies() -> impl Generator<Value = Strategy> {
        prop_oneof![
            Just(Strategy::Greedy),
            (positive(), any::<u32>(), positive(), any::<u64>(), any::<u32>()).prop_map(
                |(temperature, top_k, top_p, seed, samples)| Strategy::Sample {
                    temperature,
                    top_k,
                    top_p,
                    seed,
                    samples
                }
            ),
            (any::<u32>(), any::<u32>(), positive(), any::<bool>()).prop_map(
                |(beams, answers, length_penalty, early_stopping)| Strategy::Beam {
                    beams,
                    answers,
                    length_penalty,
                    early_stopping
                }
            ),
        ]
    }

    fn chats() -> impl Generator<Value = Vec<Message>> {
        let turn = (".*", ".*").prop_map(|(role, content)| Message { role, content });
        prop::collection::vec(turn, 0..3)
    }

    /// A request from before there was a choice keeps its key.
    #[test]
    fn only_what_differs_from_the_usual_is_in_a_key() {
        let Request::Generate(generate) = sample() else { panic!("no generation") };
        let with = Request::Generate(Generate { logprobs: true, ..generate });
        let expected =
            canonical(&sample()).replace("\"max_tokens\"", "\"logprobs\":true,\"max_tokens\"");
        assert_eq!(canonical(&with), expected);
        let hidden = |layer, rows| {
            canonical(&Request::Hidden(Hidden { text: "a".into(), truncate: None, layer, rows }))
        };
        assert_eq!(hidden(-1, HiddenRows::Last), r#"{"hidden":{"text":"a","truncate":null}}"#);
        let all = r#"{"hidden":{"layer":2,"rows":"all","text":"a","truncate":null}}"#;
        assert_eq!(hidden(2, HiddenRows::All), all);
        let classify = |pair: Option<&str>| {
            let pair = pair.map(str::to_owned);
            canonical(&Request::Classify(Classify { text: "a".into(), pair, truncate: None }))
        };
        assert_eq!(classify(None), r#"{"classify":{"pair":null,"text":"a","truncate":null}}"#);
        assert_eq!(classify(Some("b")), r#"{"classify":{"pair":"b","text":"a","truncate":null}}"#);
    }

    #[test]
    fn messages_have_keys_of_their_own() {
        let turn = |role: &str| Message { role: role.into(), content: "a".into() };
        let prompted = |prompt| {
            let Request::Generate(generate) = sample() else { panic!("no generation") };
            canonical(&Request::Generate(Generate { prompt, ..generate }))
        };
        let chat = prompted(Prompt::Messages(vec![turn("system"), turn("user")]));
        let expected = r#""prompt":{"messages":[{"content":"a","role":"system"},{"content":"a","role":"user"}]}"#;
        assert!(chat.contains(expected), "{chat}");
        let scored = |messages| {
            let continuations = vec!["b".to_owned()];
            let (prompt, truncate, include_eos) = ("p".to_owned(), None, false);
            canonical(&Request::Score(Score {
                prompt,
                messages,
                truncate,
                continuations,
                include_eos,
                logprobs: false,
                prompt_logprobs: false,
            }))
        };
        // As it was before there were messages.
        assert_eq!(
            scored(vec![]),
            r#"{"score":{"continuations":["b"],"prompt":"p","truncate":null,"with_end":false}}"#
        );
        assert!(
            scored(vec![turn("user")])
                .contains(r#""messages":[{"content":"a","role":"user"}],"prompt""#)
        );
    }

    fn formats() -> impl Generator<Value = Option<ResponseFormat>> {
        let schema = |(text, number): (String, i64)| serde_json::json!({ "type": text, "b": [number, null, 0.5, { "z": true, "a": text }], "a": {} });
        let schema = (".*", any::<i64>()).prop_map(schema);
        let named = (".*", schema, any::<Option<bool>>()).prop_map(|(name, schema, strict)| {
            ResponseFormat::JsonSchema(NamedSchema { name, schema, strict })
        });
        let regex = ".*".prop_map(|regex: String| Some(ResponseFormat::Regex(regex)));
        let object = Just(Some(ResponseFormat::JsonObject));
        prop_oneof![Just(None), object, named.prop_map(Some), regex]
    }

    #[test]
    fn a_form_of_the_answer_is_another_request_and_so_is_another_order_of_its_schema() {
        let key_of = |format: Option<&str>| {
            let Request::Generate(generate) = sample() else { panic!("no generation") };
            let response_format = format.map(|format| serde_json::from_str(format).unwrap());
            canonical(&Request::Generate(Generate { response_format, ..generate }))
        };
        let schema =
            r#"{"type":"json_schema","json_schema":{"name":"n","schema":{"b":[2.50],"a":1}}}"#;
        let same =
            r#"{"json_schema":{"schema":{"b":[2.5],"a":1},"name":"n"},"type":"json_schema"}"#;
        let other =
            r#"{"type":"json_schema","json_schema":{"name":"n","schema":{"a":1,"b":[2.5]}}}"#;
        let expected = r#""response_format":{"json_schema":{"name":"n","schema":{"b":[2.5],"a":1}},"type":"json_schema"}"#;
        assert!(key_of(Some(schema)).contains(expected), "{}", key_of(Some(schema)));
        assert_eq!(key_of(Some(schema)), key_of(Some(same)));
        let (object, regex) = (r#"{"type":"json_object"}"#, r#"{"type":"regex","regex":"a\\d"}"#);
        assert!(
            key_of(Some(regex)).contains(r#""response_format":{"regex":"a\\d","type":"regex"}"#)
        );
        let all = [None, Some(schema), Some(other), Some(object), Some(regex)].map(key_of);
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 5);
    }

    fn requests() -> impl Generator<Value = Request> {
        let prompts = prop_oneof![
            ".*".prop_map(Prompt::Text),
            texts().prop_map(Prompt::Passages),
            chats().prop_map(Prompt::Messages),
        ];
        let (max, min) = (any::<u32>(), any::<u32>());
        let rest = (".*", strategies(), max, min, texts(), texts(), formats());
        prop_oneof![
            (prompts, truncates(), rest).prop_map(|(prompt, truncate, rest)| {
                let (prefix, strategy, max_tokens, min_tokens, stop, choices, response_format) =
                    rest;
                Request::Generate(Generate {
                    prompt,
                    truncate,
                    prefix,
                    strategy,
                    max_tokens,
                    min_tokens,
                    stop,
                    choices,
                    response_format,
                    logprobs: max_tokens % 2 == 0,
                })
            }),
            (".*", chats(), truncates(), texts(), any::<[bool; 3]>()).prop_map(
                |(prompt, messages, truncate, continuations, flags)| {
                    let [include_eos, logprobs, prompt_logprobs] = flags;
                    Request::Score(Score {
                        prompt,
                        messages,
                        truncate,
                        continuations,
                        include_eos,
                        logprobs,
                        prompt_logprobs,
                    })
                }
            ),
            (".*", truncates())
                .prop_map(|(text, truncate)| Request::Embed(Embed { text, truncate })),
            (".*", truncates(), any::<i32>(), prop::sample::select(ROWS.to_vec())).prop_map(
                |(text, truncate, layer, rows)| Request::Hidden(Hidden {
                    text,
                    truncate,
                    layer,
                    rows
                })
            ),
            (".*", prop::option::of(".*"), truncates()).prop_map(|(text, pair, truncate)| {
                Request::Classify(Classify { text, pair, truncate })
            }),
        ]
    }

    fn is_sorted(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Object(object) => {
                let sorted = |(key, value): (&String, _)| key == "schema" || is_sorted(value);
                object.keys().is_sorted() && object.iter().all(sorted)
            }
            serde_json::Value::Array(values) => values.iter().all(is_sorted),
            _ => true,
        }
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_the_request_and_nothing_else(request in requests()) {
            let json = canonical(&request);
            prop_assert_eq!(&serde_json::from_str::<Request>(&json).unwrap(), &request);
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert!(is_sorted(&value) && !json.contains('\n'));
        }
    }
}
