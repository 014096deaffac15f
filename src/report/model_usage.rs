//! Usage of models, in words.

use std::time::Duration;

use proofmill_store::{LocalUsage, ModelUsage};
use proofmill_udfs::model::Counts;

use crate::report::units::count;

/// While a stage runs: its pace, and what is out of the ordinary.
pub fn under_way(counts: &Counts, elapsed: Duration) -> String {
    let mut parts = Vec::new();
    parts.extend(pace(counts, elapsed));
    let rare = [(counts.replayed, "replayed"), (counts.failed, "failed")];
    let rare = rare.into_iter().filter(|(n, _)| *n > 0);
    parts.extend(rare.map(|(n, what)| format!("{} {what}", count(n))));
    parts.join(", ")
}

/// Usage of a model behind an endpoint, and what that cost.
pub fn of_model(name: &str, usage: &ModelUsage) -> String {
    let aside = |n: u64, what: &str| match n {
        0 => String::new(),
        n => format!(" ({} {what})", count(n)),
    };
    let cost = usage.cost.as_ref().map(|cost| format!(", cost {cost}")).unwrap_or_default();
    format!(
        "model {name}: {} requests{}, {} prompt tokens{}, {} completion tokens{}{cost}",
        count(usage.requests),
        aside(usage.retries, "repeated"),
        count(usage.prompt_tokens),
        aside(usage.cached_tokens, "cached"),
        count(usage.completion_tokens),
        aside(usage.uncounted, "answers not counted by the endpoint"),
    )
}

/// Usage of a model in a folder: its answers, and the tokens requested and computed.
pub fn of_local_model(name: &str, usage: &LocalUsage) -> String {
    let &LocalUsage { answers, asked_tokens: requested, computed_tokens: computed } = usage;
    let shared = requested.saturating_sub(computed);
    if shared == 0 {
        return format!(
            "model {name}: {} answers; {} tokens computed",
            count(answers),
            count(computed)
        );
    }
    let percent = shared as f64 / requested.max(1) as f64 * 100.0;
    format!(
        "model {name}: {} answers; {} tokens asked, {} computed, {} shared with other requests \
         ({percent:.0} %)",
        count(answers),
        count(requested),
        count(computed),
        count(shared),
    )
}

/// When it has ended: everything.
pub fn at_the_end(counts: &Counts, wall: Duration) -> String {
    let all = [(counts.sent, "asked"), (counts.replayed, "replayed"), (counts.failed, "failed")];
    let mut parts: Vec<_> =
        all.into_iter().map(|(n, what)| format!("{} {what}", count(n))).collect();
    parts.extend(pace(counts, wall));
    parts.join(", ")
}

/// Requests of all stages of a run, with the tokens.
pub fn in_all(counts: &Counts, wall: Duration) -> String {
    let (read, written) = (count(counts.prompt_tokens), count(counts.output_tokens));
    let tokens = match (counts.prompt_tokens, counts.output_tokens) {
        (0, 0) => String::new(),
        // Nothing was written, or an endpoint did not say how much of it is whose.
        (_, 0) => format!("; {read} prompt tokens"),
        _ => format!("; {read} prompt and {written} output tokens"),
    };
    at_the_end(counts, wall) + &tokens
}

/// Tokens read and written in a second; nothing if there were none.
fn pace(counts: &Counts, time: Duration) -> Option<String> {
    let tokens = counts.prompt_tokens + counts.output_tokens;
    let rate = tokens as f64 / time.as_secs_f64();
    (tokens > 0 && rate.is_finite()).then(|| format!("{} tokens/s", count(rate.round() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        Counts {
            rows: 130,
            settled: 120,
            replayed: 7,
            sent: 110,
            answered: 108,
            failed: 2,
            prompt_tokens: 12_000,
            output_tokens: 345,
            ..Counts::default()
        }
    }

    #[test]
    fn a_model_is_summed_up_in_a_line() {
        let usage = ModelUsage { requests: 1200, prompt_tokens: 31, ..ModelUsage::default() };
        assert_eq!(
            of_model("far", &usage),
            "model far: 1,200 requests, 31 prompt tokens, 0 completion tokens"
        );
        let usage = ModelUsage {
            retries: 3,
            uncounted: 2,
            cached_tokens: 7,
            cost: Some("0.0123".to_owned()),
            ..usage
        };
        assert_eq!(
            of_model("far", &usage),
            "model far: 1,200 requests (3 repeated), 31 prompt tokens (7 cached), 0 completion tokens \
             (2 answers not counted by the endpoint), cost 0.0123"
        );
    }

    #[test]
    fn a_local_model_tells_what_it_shared() {
        let usage = LocalUsage { answers: 150, asked_tokens: 12_000, computed_tokens: 3_000 };
        assert_eq!(
            of_local_model("tiny", &usage),
            "model tiny: 150 answers; 12,000 tokens asked, 3,000 computed, 9,000 shared with other \
             requests (75 %)"
        );
        // What was computed twice is not shared.
        let again = LocalUsage { answers: 1, asked_tokens: 10, computed_tokens: 12 };
        let text = of_local_model("tiny", &again);
        assert_eq!(text, "model tiny: 1 answers; 12 tokens computed");
    }

    #[test]
    fn the_end_tells_everything_and_the_way_what_stands_out() {
        let time = Duration::from_secs(10);
        let end = at_the_end(&counts(), time);
        assert_eq!(end, "110 asked, 7 replayed, 2 failed, 1,235 tokens/s");
        assert_eq!(under_way(&counts(), time), "1,235 tokens/s, 7 replayed, 2 failed");
        let valid = Counts { replayed: 0, failed: 0, ..counts() };
        assert_eq!(under_way(&valid, time), "1,235 tokens/s");
    }

    #[test]
    fn there_is_no_pace_without_tokens_or_time() {
        assert_eq!(at_the_end(&counts(), Duration::ZERO), "110 asked, 7 replayed, 2 failed");
        let replayed = Counts { replayed: 4, ..Counts::default() };
        let end = at_the_end(&replayed, Duration::from_secs(1));
        assert_eq!(end, "0 asked, 4 replayed, 0 failed");
    }
}
