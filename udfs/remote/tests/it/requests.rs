//! What is sent, to the last field, and what is refused before anything is sent.

use proofmill_engine::request::{
    Classify, Embed, Generate, Hidden, HiddenRows, Keep, Message, Prompt, Request, RequestError,
    ResponseFormat, Score, Strategy, Truncate,
};
use proofmill_remote::{RemoteError, Settings};
use proofmill_settings::endpoint::{Api, Capabilities};
use serde_json::{Value, json};

use crate::fake_clock::FakeClock;
use crate::fake_server::{FakeServer, Reply};
use crate::support::{HI, generate, greedy, open, sample, settings};

const ALL: Capabilities = Capabilities { logprobs: true, scores: true, top_k: true, samples: true };

/// What a request becomes: the first line and the body.
async fn sent(request: Request, change: impl FnOnce(&mut Settings)) -> (String, Value) {
    let server = FakeServer::start([Reply::ok(HI)]).await;
    let mut settings = settings(&server.base_url);
    change(&mut settings);
    // The answer does not fit every interface.
    let _ = open(settings, std::sync::Arc::new(FakeClock::default())).ask(&request).await;
    let received = server.received().remove(0);
    (received.head.lines().next().unwrap().to_owned(), received.body)
}

#[tokio::test]
async fn greedy_completions() {
    let (line, body) = sent(greedy(), |_| ()).await;
    assert_eq!(line, "post /v1/completions http/1.1");
    let expected = json!({"model": "m", "prompt": "say hi", "max_tokens": 16, "temperature": 0.0});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn everything_that_completions_take() {
    let task = Generate {
        prefix: "well".to_owned(),
        strategy: Strategy::Sample { temperature: 0.7, top_k: 4, top_p: 0.9, seed: 5, samples: 3 },
        stop: vec!["\n".to_owned()],
        ..generate("say hi: ")
    };
    let (_, body) = sent(Request::Generate(task), |settings| settings.capabilities = ALL).await;
    assert_eq!(
        body.to_string(),
        json!({
            "model": "m", "prompt": "say hi: well", "max_tokens": 16, "temperature": 0.7,
            "top_p": 0.9, "top_k": 4, "seed": 5, "n": 3, "stop": ["\n"], "logprobs": 1,
        })
        .to_string()
    );
}

#[tokio::test]
async fn chat() {
    let task = Generate { strategy: sample(1), ..generate("say hi") };
    let (line, body) = sent(Request::Generate(task), |settings| {
        (settings.api, settings.system) = (Api::Chat, Some("be brief".to_owned()));
        settings.capabilities = ALL;
    })
    .await;
    assert_eq!(line, "post /v1/chat/completions http/1.1");
    assert_eq!(
        body.to_string(),
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "be brief"}, {"role": "user", "content": "say hi"},
            ],
            "max_tokens": 16, "temperature": 0.7, "top_p": 0.9, "top_k": 0, "seed": 5,
            "logprobs": true, "top_logprobs": 1,
        })
        .to_string()
    );
}

#[tokio::test]
async fn a_form_of_the_answer_is_sent_as_it_is() {
    for format in [
        json!({"type": "json_object"}),
        json!({"type": "json_schema", "json_schema": {
            "name": "verdict", "schema": {"type": "object", "properties": {"b": {}, "a": {}}},
        }}),
        json!({"type": "json_schema", "json_schema": {"name": "v", "schema": {}, "strict": true}}),
    ] {
        let response_format = Some(serde_json::from_value(format.clone()).unwrap());
        let task = Request::Generate(Generate { response_format, ..generate("p") });
        let (_, body) = sent(task, |settings| settings.api = Api::Chat).await;
        assert_eq!(body["response_format"].to_string(), format.to_string());
    }
}

fn turns(turns: &[(&str, &str)]) -> Prompt {
    let turn = |(role, content): &(&str, &str)| Message {
        role: (*role).to_owned(),
        content: (*content).to_owned(),
    };
    Prompt::Messages(turns.iter().map(turn).collect())
}

#[tokio::test]
async fn messages_are_sent_as_they_are_after_the_models_own_system() {
    let shots = [("user", "2+2?"), ("assistant", "4"), ("user", "3+3?")];
    let own = [("system", "be long"), ("user", "3+3?")];
    for (messages, expected) in
        [(&shots[..], [&[("system", "be brief")], &shots[..]].concat()), (&own[..], own.to_vec())]
    {
        let task = Generate { prompt: turns(messages), ..generate("") };
        let (line, body) = sent(Request::Generate(task), |settings| {
            (settings.api, settings.system) = (Api::Chat, Some("be brief".to_owned()));
        })
        .await;
        assert_eq!(line, "post /v1/chat/completions http/1.1");
        let turn = |(role, content): &(&str, &str)| json!({"role": role, "content": content});
        assert_eq!(body["messages"], expected.iter().map(turn).collect::<Value>());
    }
}

#[tokio::test]
async fn embeddings_and_scores() {
    let embed = Embed { text: "a".to_owned(), truncate: None };
    let (line, body) = sent(Request::Embed(embed), |_| ()).await;
    assert_eq!(line, "post /v1/embeddings http/1.1");
    assert_eq!(body, json!({"model": "m", "input": "a"}));

    let (line, body) = sent(score(), |settings| settings.capabilities = ALL).await;
    assert_eq!(line, "post /v1/completions http/1.1");
    let expected = json!({
        "model": "m", "prompt": "The sky is blue", "max_tokens": 1, "temperature": 0.0,
        "logprobs": 1, "echo": true,
    });
    assert_eq!(body, expected);
}

fn score() -> Request {
    Request::Score(Score {
        prompt: "The sky is".to_owned(),
        truncate: None,
        continuations: vec![" blue".to_owned()],
        include_eos: false,
        messages: Vec::new(),
        logprobs: false,
        prompt_logprobs: false,
    })
}

/// A request, the settings it is sent under, and a word of the refusal.
type Case = (Request, fn(&mut Settings), &'static str);

#[tokio::test]
async fn what_an_endpoint_cannot_do_is_never_sent() {
    let with = |change: fn(&mut Generate)| {
        let mut task = generate("p");
        change(&mut task);
        Request::Generate(task)
    };
    let scored = |change: fn(&mut Score)| {
        let Request::Score(mut score) = score() else { unreachable!() };
        change(&mut score);
        Request::Score(score)
    };
    const CUT: Truncate = Truncate { tokens: 9, keep: Keep::End };
    let embed = || Embed { text: "a".to_owned(), truncate: Some(CUT) };
    let text = || "a".to_owned();
    let hidden = Hidden { text: text(), truncate: None, layer: -1, rows: HiddenRows::Last };
    let classify = Classify { text: text(), pair: None, truncate: None };
    let plain: fn(&mut Settings) = |_| ();
    let chat: fn(&mut Settings) = |settings| {
        settings.api = Api::Chat;
        settings.capabilities = ALL;
    };
    let all: fn(&mut Settings) = |settings| settings.capabilities = ALL;
    let cases: Vec<Case> = vec![
        (with(|task| task.prompt = Prompt::Passages(vec![])), plain, "passages"),
        (with(|task| task.truncate = Some(CUT)), plain, "`truncate`"),
        (with(|task| task.choices = vec!["yes".to_owned()]), plain, "`choices`"),
        (with(|task| task.logprobs = true), all, "`logprobs`"),
        (
            with(|task| task.response_format = Some(ResponseFormat::Regex("a".to_owned()))),
            chat,
            "`regex`",
        ),
        (with(|task| task.min_tokens = 1), plain, "`min_tokens`"),
        (with(|task| task.max_tokens = 0), plain, "`max_tokens`"),
        (with(|task| task.stop = vec![String::new()]), plain, "`stop`"),
        (with(|task| task.prefix = "a".to_owned()), chat, "`prefix`"),
        (with(|task| task.strategy = sample(0)), plain, "`samples`"),
        (
            with(|task| task.strategy = sample(2)),
            |settings| settings.capabilities.samples = false,
            "one answer per request",
        ),
        (
            with(|task| {
                task.strategy =
                    Strategy::Sample { temperature: 1.0, top_k: 3, top_p: 1.0, seed: 0, samples: 1 }
            }),
            plain,
            "`top_k`",
        ),
        (
            with(|task| {
                task.strategy = Strategy::Sample {
                    temperature: f32::NAN,
                    top_k: 0,
                    top_p: 1.0,
                    seed: 0,
                    samples: 1,
                }
            }),
            plain,
            "`temperature`",
        ),
        (
            with(|task| {
                task.strategy = Strategy::Sample {
                    temperature: 1.0,
                    top_k: 0,
                    top_p: 1.0,
                    seed: u64::MAX,
                    samples: 1,
                }
            }),
            plain,
            "`seed`",
        ),
        (
            with(|task| {
                task.strategy = Strategy::Beam {
                    beams: 2,
                    answers: 1,
                    length_penalty: 1.0,
                    early_stopping: true,
                }
            }),
            plain,
            "beam",
        ),
        (
            with(|task| task.response_format = Some(ResponseFormat::JsonObject)),
            plain,
            "only a chat endpoint takes `response_format`",
        ),
        (with(|task| task.prompt = turns(&[("user", "a")])), plain, "only a chat endpoint reads"),
        (with(|task| task.prompt = turns(&[])), chat, "no messages"),
        (
            scored(|score| {
                let Prompt::Messages(messages) = turns(&[("user", "a")]) else { unreachable!() };
                score.messages = messages;
            }),
            all,
            "cannot score what follows messages",
        ),
        (Request::Embed(embed()), plain, "`truncate`"),
        (Request::Hidden(hidden), plain, "hidden"),
        (Request::Classify(classify), plain, "classes"),
        (score(), plain, "`echo`"),
        (score(), chat, "`api`"),
        (scored(|score| score.truncate = Some(CUT)), all, "`truncate`"),
        (scored(|score| score.include_eos = true), all, "`include_eos`"),
        (scored(|score| score.logprobs = true), all, "`logprobs`"),
        (scored(|score| score.prompt_logprobs = true), all, "`logprobs`"),
        (scored(|score| score.prompt.clear()), all, "prompt"),
        (scored(|score| score.continuations.clear()), all, "continuation"),
    ];
    let server = FakeServer::start([Reply::ok(HI)]).await;
    for (request, change, word) in cases {
        let mut settings = settings(&server.base_url);
        change(&mut settings);
        let model = open(settings, std::sync::Arc::new(FakeClock::default()));
        let error = model.ask(&request).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        let RemoteError::Row { error: RequestError::Invalid(_), attempts: 0, transient: false } =
            error
        else {
            panic!("{error:?}")
        };
    }
    assert!(server.received().is_empty());
}
