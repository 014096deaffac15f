//! Whether an answer answers its request, and how it is written down.

use proofmill_engine::request::{Answer, Body, Hidden, HiddenRows, Request, TokenLogprob};

use super::error::Failure;

/// The answer as JSON, if it is one that the request allows.
pub(super) fn to_json(request: &Request, answer: &Answer) -> Result<String, Failure> {
    fits(request, answer)?;
    serde_json::to_string(answer).map_err(|error| Failure::failed(error.to_string()))
}

/// Reads a recorded answer to a request.
pub(super) fn from_json(request: &Request, json: &str) -> Result<Answer, String> {
    let answer: Answer = serde_json::from_str(json).map_err(|error| error.to_string())?;
    fits(request, &answer).map_err(|failure| failure.message)?;
    Ok(answer)
}

/// Whether the answer says nothing at all. Such an answer is given but not recorded: the next run
/// asks again.
pub(super) fn is_blank(answer: &Answer) -> bool {
    match &answer.body {
        Body::Generations(all) => all.iter().all(|one| one.text.trim().is_empty()),
        Body::Scores(_) | Body::Vector(_) | Body::Vectors(_) | Body::Classes(_) => false,
    }
}

/// New tokens of an answer.
pub(super) fn output_tokens(answer: &Answer) -> u64 {
    match &answer.body {
        Body::Generations(all) => all.iter().map(|one| u64::from(one.output_tokens)).sum(),
        Body::Scores(_) | Body::Vector(_) | Body::Vectors(_) | Body::Classes(_) => 0,
    }
}

fn fits(request: &Request, answer: &Answer) -> Result<(), Failure> {
    match (request, &answer.body) {
        (Request::Generate(generate), Body::Generations(all)) => {
            let most = generate.strategy.answers() as usize;
            if all.is_empty() || all.len() > most {
                return wrong(format!("{} answers where 1 to {most} were asked for", all.len()));
            }
            if generate.logprobs && all.iter().any(|one| one.logprobs.is_none()) {
                return wrong("no log-probabilities of tokens");
            }
            let tokens = all.iter().flat_map(|one| each(&one.logprobs));
            let numbers = all.iter().flat_map(|one| [one.logprob, one.score]).flatten();
            finite(numbers.chain(tokens), "log-probability or score")
        }
        (Request::Score(score), Body::Scores(all)) => {
            if all.len() != score.continuations.len() {
                let wanted = score.continuations.len();
                return wrong(format!("{} scores for {wanted} continuations", all.len()));
            }
            if let Some(at) = all.iter().position(|one| one.tokens == 0) {
                let text = &score.continuations[at];
                let message = format!("continuation `{text}` has no tokens, so it has no score");
                return Err(Failure::invalid(message));
            }
            if score.logprobs && all.iter().any(|one| one.logprobs.is_none())
                || score.prompt_logprobs && all.iter().all(|one| one.prompt_logprobs.is_none())
            {
                return wrong("no log-probabilities of tokens");
            }
            let tokens =
                all.iter().flat_map(|one| each(&one.logprobs).chain(each(&one.prompt_logprobs)));
            finite(all.iter().map(|one| one.logprob).chain(tokens), "log-probability")
        }
        (Request::Hidden(Hidden { rows: HiddenRows::All, .. }), Body::Vectors(all)) => {
            if all.is_empty() || all.iter().any(Vec::is_empty) {
                return wrong("an empty vector");
            }
            finite(all.iter().flatten().map(|x| f64::from(*x)), "vector")
        }
        (Request::Hidden(Hidden { rows: HiddenRows::All, .. }), Body::Vector(_)) => {
            wrong("one vector where one for each token was asked for")
        }
        (Request::Classify(_), Body::Classes(all)) => {
            if all.is_empty() {
                return wrong("no class");
            }
            let numbers = all.iter().flat_map(|one| [Some(one.logit), one.probability]).flatten();
            finite(numbers.map(f64::from), "logit or probability")
        }
        (Request::Embed(_) | Request::Hidden(_), Body::Vector(vector)) => {
            if vector.is_empty() {
                return wrong("an empty vector");
            }
            finite(vector.iter().map(|x| f64::from(*x)), "vector")
        }
        (
            Request::Generate(_)
            | Request::Score(_)
            | Request::Embed(_)
            | Request::Hidden(_)
            | Request::Classify(_),
            Body::Generations(_)
            | Body::Scores(_)
            | Body::Vector(_)
            | Body::Vectors(_)
            | Body::Classes(_),
        ) => wrong("an answer to another kind of request"),
    }
}

/// The log-probabilities of single tokens, if the answer has them.
fn each(logprobs: &Option<Vec<TokenLogprob>>) -> impl Iterator<Item = f64> {
    logprobs.iter().flatten().filter_map(|one| one.logprob).map(f64::from)
}

fn finite(numbers: impl Iterator<Item = f64>, what: &str) -> Result<(), Failure> {
    let mut numbers = numbers;
    match numbers.find(|number| !number.is_finite()) {
        Some(number) => wrong(format!("{number} in a {what}")),
        None => Ok(()),
    }
}

fn wrong<T>(what: impl std::fmt::Display) -> Result<T, Failure> {
    Err(Failure::failed(format!("the model gave {what}")))
}
