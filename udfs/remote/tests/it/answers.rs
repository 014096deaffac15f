//! What responses mean, and which are no answers.

use std::sync::Arc;

use proofmill_engine::request::{
    Answer, Body, Embed, Finish, Generate, Generation, Request, RequestError, Score, Scored,
};
use proofmill_remote::{RemoteError, Settings};
use proofmill_settings::endpoint::{Api, Capabilities};
use serde_json::{Value, json};

use crate::fake_clock::FakeClock;
use crate::fake_server::{FakeServer, Reply};
use crate::support::{generate, generations, greedy, model, open, sample, settings};

/// The answer made of a response.
async fn read(
    request: &Request,
    response: &Value,
    change: impl FnOnce(&mut Settings),
) -> Result<Answer, RemoteError> {
    let server = FakeServer::start([Reply::ok(response.to_string())]).await;
    let mut settings = settings(&server.base_url);
    change(&mut settings);
    open(settings, Arc::new(FakeClock::default())).ask(request).await
}

/// Why a response is no answer.
async fn failure(
    request: &Request,
    response: &Value,
    change: impl FnOnce(&mut Settings),
) -> String {
    match read(request, response, change).await {
        Err(RemoteError::Row { error: RequestError::Failed(reason), .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn one(text: &str, finish_reason: &str) -> Value {
    json!({
        "choices": [{"text": text, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    })
}

fn stopping() -> Request {
    Request::Generate(Generate { stop: vec!["\n".to_owned(), "END".to_owned()], ..generate("p") })
}

#[tokio::test]
async fn a_completion() {
    let task = Generate { prefix: "well, ".to_owned(), ..generate("p") };
    let answer = read(&Request::Generate(task), &one("yes", "length"), |_| ()).await.unwrap();
    assert_eq!((answer.prompt_tokens, answer.prompt_truncated), (3, false));
    let expected = Generation {
        text: "well, yes".to_owned(),
        finish: Finish::Length,
        logprob: None,
        score: None,
        output_tokens: 4,
        logprobs: None,
    };
    assert_eq!(generations(answer), [expected]);
}

#[tokio::test]
async fn why_it_ended() {
    let finish = async |request: &Request, response: Value| {
        let answer = read(request, &response, |_| ()).await.unwrap();
        let generation = generations(answer).remove(0);
        (generation.text, generation.finish)
    };
    let said = |text: &str, finish| (text.to_owned(), finish);
    assert_eq!(finish(&greedy(), one("a", "stop")).await, said("a", Finish::End));
    assert_eq!(finish(&stopping(), one("a", "stop")).await, said("a", Finish::Stop));
    // Some servers leave the stop text where it is.
    assert_eq!(finish(&stopping(), one("aEND\nb", "stop")).await, said("a", Finish::Stop));
    assert_eq!(finish(&stopping(), one("a\nb END", "length")).await, said("a", Finish::Stop));
    assert_eq!(finish(&stopping(), one("\n", "stop")).await, said("", Finish::Stop));
    for (reason, expected) in
        [(json!("\n"), Finish::Stop), (Value::Null, Finish::End), (json!(2), Finish::End)]
    {
        let mut response = one("a", "stop");
        response["choices"][0]["stop_reason"] = reason;
        assert_eq!(finish(&stopping(), response).await, said("a", expected));
    }
    // The model may say nothing, if it says so.
    assert_eq!(finish(&greedy(), one("", "stop")).await, said("", Finish::End));
}

#[tokio::test]
async fn several_answers_come_in_their_order() {
    let request = Request::Generate(Generate { strategy: sample(2), ..generate("p") });
    let logprobs = |values: Value| json!({"tokens": ["a", "b"], "token_logprobs": values});
    let response = json!({
        "choices": [
            {"index": 1, "text": "b", "finish_reason": "stop", "logprobs": logprobs(json!([-0.5, null]))},
            {"index": 0, "text": "a", "finish_reason": "stop", "logprobs": logprobs(json!([-0.5, -0.25]))},
        ],
        "usage": null,
    });
    let answers = generations(read(&request, &response, |_| ()).await.unwrap());
    let found: Vec<_> =
        answers.iter().map(|one| (&*one.text, one.logprob, one.output_tokens)).collect();
    assert_eq!(found, [("a", Some(-0.75), 2), ("b", None, 2)]);
}

#[tokio::test]
async fn log_probabilities_belong_to_tokens_and_are_none_above_0() {
    let answer = |tokens: Value, values: Value| {
        let logprobs = json!({"tokens": tokens, "token_logprobs": values});
        json!({
            "choices": [{"index": 0, "text": "a", "finish_reason": "stop", "logprobs": logprobs}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        })
    };
    for (tokens, values, says) in [
        (json!(["a", "b", "c"]), json!([-1.0]), "3 tokens and log-probabilities of 1"),
        (json!(["a"]), json!([-1.0, -2.0]), "1 tokens and log-probabilities of 2"),
        (json!(["a", "b"]), json!([-1.0, 5.0]), "a log-probability of 5"),
    ] {
        let error = read(&greedy(), &answer(tokens, values), |_| ()).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    let fine = answer(json!(["a", "b"]), json!([-1.0, 0.0]));
    assert_eq!(generations(read(&greedy(), &fine, |_| ()).await.unwrap())[0].logprob, Some(-1.0));
}

#[tokio::test]
async fn a_chat() {
    let chat = |settings: &mut Settings| settings.api = Api::Chat;
    let response = json!({
        "choices": [{
            "message": {"role": "assistant", "content": "yes", "reasoning": "hm"},
            "finish_reason": "stop",
            "logprobs": {"content": [{"token": "yes", "logprob": -1.5}]},
        }],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "details": {}},
    });
    let answer = generations(read(&greedy(), &response, chat).await.unwrap()).remove(0);
    assert_eq!((&*answer.text, answer.logprob, answer.output_tokens), ("yes", Some(-1.5), 2));

    let message = |message: Value, finish: &str| {
        json!({
            "choices": [{"message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2},
        })
    };
    for (response, word) in [
        (message(json!({"content": null, "refusal": "no way"}), "stop"), "no way"),
        (message(json!({"content": "", "reasoning_content": "hm"}), "length"), "reasoning"),
        (message(json!({"content": null}), "tool_calls"), "tool_calls"),
        (message(json!({"content": "x"}), "content_filter"), "content_filter"),
    ] {
        let reason = failure(&greedy(), &response, chat).await;
        assert!(reason.contains(word), "{reason}");
    }
}

#[tokio::test]
async fn what_is_no_answer() {
    let two = Request::Generate(Generate { strategy: sample(2), ..generate("p") });
    let nothing = json!({"choices": [{"text": "", "finish_reason": "stop"}]});
    for (request, response, word) in [
        (greedy(), json!({"choices": []}), "`choices` is empty"),
        (greedy(), nothing, "generated nothing"),
        (two, one("a", "stop"), "does not know `n`|seems not to know `n`"),
        (greedy(), one("a", "content_filter"), "content_filter"),
        (greedy(), one("a", "abort"), "`abort`"),
        (greedy(), json!({"choices": [{"text": "a"}]}), "`finish_reason`"),
        (greedy(), json!({"choices": [{"text": 7}]}), "protocol"),
        (greedy(), json!([]), "protocol"),
    ] {
        let reason = failure(&request, &response, |_| ()).await;
        assert!(word.split('|').any(|word| reason.contains(word)), "{reason}");
    }
}

#[tokio::test]
async fn an_answer_without_counts_is_a_gap_in_the_account() {
    let response = json!({"choices": [{"text": "a", "finish_reason": "stop"}]}).to_string();
    let server = FakeServer::start([Reply::ok(response), Reply::ok(one("a", "stop").to_string())]);
    let (model, _) = model(&server.await);
    let first = model.ask(&greedy()).await.unwrap();
    assert_eq!((first.prompt_tokens, generations(first)[0].output_tokens), (0, 0));
    model.ask(&greedy()).await.unwrap();
    let usage = model.usage();
    assert_eq!((usage.answers, usage.uncounted), (2, 1));
    assert_eq!((usage.prompt_tokens, usage.output_tokens), (3, 4));
}

#[tokio::test]
async fn vectors() {
    let request = Request::Embed(Embed { text: "a".to_owned(), truncate: None });
    let vector = |numbers: Value| json!({"data": [{"embedding": numbers}], "usage": {"prompt_tokens": 2, "total_tokens": 2}});
    let answer = read(&request, &vector(json!([1, -0.5])), |_| ()).await.unwrap();
    assert_eq!((answer.prompt_tokens, answer.body), (2, Body::Vector(vec![1.0, -0.5])));
    for (response, word) in [
        (vector(json!([])), "without numbers"),
        (vector(json!([0, 1e300])), "number 1"),
        (json!({"data": []}), "0 vectors"),
    ] {
        let reason = failure(&request, &response, |_| ()).await;
        assert!(reason.contains(word), "{reason}");
    }
}

fn score() -> Request {
    Request::Score(Score {
        prompt: "a b".to_owned(),
        truncate: None,
        continuations: vec![" c d".to_owned()],
        include_eos: false,
        messages: Vec::new(),
        logprobs: false,
        prompt_logprobs: false,
    })
}

fn offered(settings: &mut Settings) {
    settings.capabilities = Capabilities { scores: true, ..Capabilities::default() };
}

fn echo() -> Value {
    json!({
        "choices": [{
            "text": "a b c d e",
            "finish_reason": "length",
            "logprobs": {
                "tokens": ["a", " b", " c", " d", " e"],
                "text_offset": [0, 1, 3, 5, 7],
                "token_logprobs": [null, -1.0, -2.0, -4.0, -8.0],
                "top_logprobs": [null, {" b": -1.0}, {" c": -2.0}, {" x": -0.5, " d": -4.0}, {}],
            },
        }],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1},
    })
}

#[tokio::test]
async fn scores() {
    let answer = read(&score(), &echo(), offered).await.unwrap();
    assert_eq!(answer.prompt_tokens, 2);
    let expected = Scored {
        logprob: -6.0,
        tokens: 2,
        is_greedy: false,
        logprobs: None,
        prompt_logprobs: None,
    };
    assert_eq!(answer.body, Body::Scores(vec![expected]));

    let mut sure = echo();
    sure["choices"][0]["logprobs"]["top_logprobs"][3] = json!({" d": -4.0});
    let Body::Scores(scores) = read(&score(), &sure, offered).await.unwrap().body else { panic!() };
    assert!(scores[0].is_greedy);
}

#[tokio::test]
async fn scores_that_cannot_be_determined() {
    let without = |field: &str, value: Value| {
        let mut response = echo();
        *response.pointer_mut(field).unwrap() = value;
        response
    };
    for (response, word) in [
        (without("/choices/0/logprobs", Value::Null), "no log-probabilities of the prompt"),
        (without("/choices/0/text", json!(" e")), "no log-probabilities of the prompt"),
        (
            without("/choices/0/logprobs/top_logprobs", Value::Null),
            "no log-probabilities of the prompt",
        ),
        (without("/choices/0/logprobs/token_logprobs/2", Value::Null), "no log-probability"),
        (
            without("/choices/0/logprobs/tokens", json!(["a", " b ", "c", " d", " e"])),
            "between two",
        ),
    ] {
        let reason = failure(&score(), &response, offered).await;
        assert!(reason.contains(word), "{reason}");
    }
}
