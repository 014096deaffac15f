//! Settings, requests and bodies that most tests share.

use std::sync::Arc;
use std::time::Duration;

use proofmill_base::clock::Clock;
use proofmill_engine::request::{Answer, Body, Generate, Generation, Prompt, Request, Strategy};
use proofmill_remote::{RemoteModel, Retry, Settings};

use crate::fake_clock::{Always, FakeClock};
use crate::fake_server::FakeServer;

/// One answer that says `hi`.
pub const HI: &str = r#"{"choices": [{"index": 0, "text": "hi", "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, "new": [1]}"#;

pub fn settings(base_url: &str) -> Settings {
    Settings {
        retry: Retry {
            retries_max: 3,
            first_delay: Duration::from_secs(1),
            delay_max: Duration::from_secs(10),
            total_max: Duration::from_secs(100),
        },
        timeout: Duration::from_secs(5),
        ..Settings::new(base_url, "m")
    }
}

pub fn open(settings: Settings, clock: Arc<dyn Clock>) -> RemoteModel {
    RemoteModel::open(settings, |_| None, clock, Arc::new(Always(1 << 63))).unwrap()
}

/// A model with a clock of its own, which is returned beside it.
pub fn model(server: &FakeServer) -> (RemoteModel, Arc<FakeClock>) {
    let host = Arc::new(FakeClock::default());
    (open(settings(&server.base_url), host.clone()), host)
}

pub fn generate(prompt: &str) -> Generate {
    Generate {
        prompt: Prompt::Text(prompt.to_owned()),
        truncate: None,
        prefix: String::new(),
        strategy: Strategy::Greedy,
        max_tokens: 16,
        min_tokens: 0,
        stop: Vec::new(),
        choices: Vec::new(),
        response_format: None,
        logprobs: false,
    }
}

pub fn greedy() -> Request {
    Request::Generate(generate("say hi"))
}

pub fn sample(samples: u32) -> Strategy {
    Strategy::Sample { temperature: 0.7, top_k: 0, top_p: 0.9, seed: 5, samples }
}

pub fn generations(answer: Answer) -> Vec<Generation> {
    match answer.body {
        Body::Generations(generations) => generations,
        other => panic!("{other:?}"),
    }
}
