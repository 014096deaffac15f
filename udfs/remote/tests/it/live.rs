//! The same questions to a real server, where one is named.
//!
//! `PROOFMILL_TEST_ENDPOINT` is its base URL, `PROOFMILL_TEST_MODEL` what it calls its model, and
//! `PROOFMILL_TEST_OFFERS` a list of `completions,chat,embeddings,logprobs,scores,samples`, all
//! that is to be requested of it. `tests/servers/README.md` starts some.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use proofmill_base::clock::SystemClock;
use proofmill_engine::request::{Body, Embed, Finish, Generate, Request, Score, Strategy};
use proofmill_remote::{ModelError, RemoteError, RemoteModel, Settings};
use proofmill_settings::endpoint::{Api, Capabilities};

use crate::fake_clock::Always;
use crate::support::{generate, generations};

/// A server to test against.
struct Live {
    settings: Settings,
    offers: Vec<String>,
}

impl Live {
    /// None, and a line that says so, where none is named or it does not offer `feature`.
    fn with(feature: &str) -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let (Some(base_url), Some(model)) =
            (variable("PROOFMILL_TEST_ENDPOINT"), variable("PROOFMILL_TEST_MODEL"))
        else {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: PROOFMILL_TEST_ENDPOINT and PROOFMILL_TEST_MODEL are not set"
            );
            return None;
        };
        let offers = variable("PROOFMILL_TEST_OFFERS").unwrap_or("completions,chat".to_owned());
        let offers: Vec<String> = offers.split(',').map(|word| word.trim().to_owned()).collect();
        if !offers.iter().any(|offer| offer == feature) {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: PROOFMILL_TEST_OFFERS does not have `{feature}`"
            );
            return None;
        }
        let has = |feature: &str| offers.iter().any(|offer| offer == feature);
        let settings = Settings {
            capabilities: Capabilities {
                logprobs: has("logprobs"),
                scores: has("scores"),
                top_k: false,
                samples: has("samples"),
            },
            timeout: Duration::from_secs(60),
            ..Settings::new(base_url, model)
        };
        Some(Self { settings, offers })
    }

    fn open(self) -> RemoteModel {
        let clock = Arc::new(SystemClock::default());
        RemoteModel::open(self.settings, |_| None, clock, Arc::new(Always(1 << 62))).unwrap()
    }
}

/// What completions and chat have in common.
async fn generates(live: Live) {
    let logprobs = live.offers.iter().any(|offer| offer == "logprobs");
    let model = live.open();
    let task = Generate { max_tokens: 6, ..generate("the cat sat on") };
    let request = Request::Generate(task.clone());
    let answer = model.ask(&request).await.unwrap();
    assert!(answer.prompt_tokens > 0);
    let said = generations(answer.clone()).remove(0);
    assert!(!said.text.is_empty());
    assert!((1..=6).contains(&said.output_tokens), "{said:?}");
    assert!(said.finish == Finish::Length || said.output_tokens < 6, "{said:?}");
    assert!(!logprobs || said.logprob.is_some_and(|sum| sum < 0.0), "{said:?}");
    // Greedy is greedy, also beside others.
    let (one, two) = tokio::join!(model.ask(&request), model.ask(&request));
    assert_eq!((&one.unwrap(), &two.unwrap()), (&answer, &answer));

    let strategy = Strategy::Sample { temperature: 1.5, top_k: 0, top_p: 1.0, seed: 3, samples: 1 };
    let sampled = Generate { strategy, ..task.clone() };
    assert_eq!(generations(model.ask(&Request::Generate(sampled)).await.unwrap()).len(), 1);

    // The third character that comes ends the answer before it.
    if let Some(stop) = said.text.chars().nth(2).filter(|stop| *stop != '\u{fffd}') {
        let stopped = Generate { stop: vec![stop.to_string()], ..task };
        let stopped = model.ask(&Request::Generate(stopped)).await;
        let at = said.text.find(stop).unwrap();
        match stopped {
            Ok(answer) => {
                let stopped = generations(answer).remove(0);
                assert_eq!((&*stopped.text, stopped.finish), (&said.text[..at], Finish::Stop));
            }
            // Nothing but the stop text came, and the server does not count it.
            Err(error) => assert!(at == 0 && error.to_string().contains("nothing"), "{error}"),
        }
    }
    let usage = model.usage();
    assert_eq!((usage.retries, usage.uncounted), (0, 0));
    assert!(usage.prompt_tokens > 0 && usage.output_tokens > 0);
}

#[tokio::test]
async fn completions() {
    let Some(live) = Live::with("completions") else { return };
    generates(live).await;
}

#[tokio::test]
async fn chat() {
    let Some(mut live) = Live::with("chat") else { return };
    live.settings.api = Api::Chat;
    generates(live).await;
}

#[tokio::test]
async fn a_forced_prefix_is_part_of_the_answer() {
    let Some(live) = Live::with("completions") else { return };
    let model = live.open();
    let task = Generate { max_tokens: 4, ..generate("the cat sat on") };
    let whole = generations(model.ask(&Request::Generate(task)).await.unwrap()).remove(0);
    let prompt = "the cat";
    let task = Generate { prefix: " sat on".to_owned(), max_tokens: 4, ..generate(prompt) };
    let forced = generations(model.ask(&Request::Generate(task)).await.unwrap()).remove(0);
    assert_eq!(forced.text, format!(" sat on{}", whole.text));
}

#[tokio::test]
async fn samples() {
    let Some(live) = Live::with("completions") else { return };
    let several = live.settings.capabilities.samples;
    let model = RemoteModel::open(
        Settings {
            capabilities: Capabilities { samples: true, ..live.settings.capabilities },
            ..live.settings
        },
        |_| None,
        Arc::new(SystemClock::default()),
        Arc::new(Always(1 << 62)),
    )
    .unwrap();
    let strategy = Strategy::Sample { temperature: 1.5, top_k: 0, top_p: 1.0, seed: 3, samples: 3 };
    let task = Generate { strategy, max_tokens: 4, ..generate("the cat sat on") };
    match model.ask(&Request::Generate(task)).await {
        Ok(answer) => assert!(several && generations(answer).len() == 3),
        Err(error) => assert!(!several && error.to_string().contains("`n`"), "{error}"),
    }
}

#[tokio::test]
async fn scores() {
    let Some(live) = Live::with("scores") else { return };
    let model = live.open();
    let score = async |continuations: &[&str]| {
        let request = Request::Score(Score {
            prompt: "the cat sat".to_owned(),
            truncate: None,
            continuations: continuations.iter().map(|text| (*text).to_owned()).collect(),
            include_eos: false,
            messages: Vec::new(),
            logprobs: false,
            prompt_logprobs: false,
        });
        let answer = model.ask(&request).await.unwrap();
        assert!(answer.prompt_tokens > 0);
        let Body::Scores(scores) = answer.body else { panic!() };
        scores
    };
    let scores = score(&[" on", " on the mat", " é"]).await;
    assert!(scores.iter().all(|one| one.logprob < 0.0 && one.tokens > 0), "{scores:?}");
    assert!(scores[1].logprob < scores[0].logprob && scores[1].tokens > scores[0].tokens);

    // What greedy decoding says is scored as what greedy decoding says.
    let task = Generate { max_tokens: 2, ..generate("the cat sat") };
    let said = generations(model.ask(&Request::Generate(task)).await.unwrap()).remove(0);
    if said.text.is_ascii() {
        let scored = score(&[&said.text]).await;
        assert!(scored[0].is_greedy || scored[0].tokens != said.output_tokens, "{scored:?}");
        if let (Some(logprob), true) = (said.logprob, scored[0].is_greedy) {
            assert!((scored[0].logprob - logprob).abs() < 1e-3, "{scored:?} {said:?}");
        }
    }
}

#[tokio::test]
async fn embeddings() {
    let Some(live) = Live::with("embeddings") else { return };
    let model = live.open();
    let vector = async |text: &str| {
        let embed = Embed { text: text.to_owned(), truncate: None };
        match model.ask(&Request::Embed(embed)).await.unwrap().body {
            Body::Vector(vector) => vector,
            other => panic!("{other:?}"),
        }
    };
    let (one, two, other) =
        (vector("the cat").await, vector("the cat").await, vector("a dog").await);
    assert!(one == two && one != other && one.len() == other.len());
}

#[tokio::test]
async fn a_path_that_is_not_there() {
    let Some(mut live) = Live::with("completions") else { return };
    live.settings.base_url.push_str("/nowhere");
    let error = live.open().ask(&Request::Generate(generate("p"))).await.unwrap_err();
    assert!(
        matches!(error, RemoteError::Model { error: ModelError::NotFound { .. }, .. }),
        "{error}"
    );
}
